package engines

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// DeltaReader is a program that reads Delta tables and shares no code with ours.
type DeltaReader string

// The readers. Each runs to its end and listens on loopback at most.
const (
	Deltalake DeltaReader = "deltalake" // delta-rs, with the SQL of DataFusion
	DuckDB    DeltaReader = "duckdb"    // its extension, on Databricks' delta-kernel
	Spark     DeltaReader = "spark"     // Delta Lake itself
)

// DeltaTable is a Delta table under the name that SQL has for it.
type DeltaTable struct {
	Name    string `json:"name"`
	Path    string `json:"path"`    // directory of _delta_log; deltalake also takes s3://
	Version *int64 `json:"version"` // nil: the newest
}

// deltaRows is the answer to a query: every value as text, NULL as "NULL".
type deltaRows struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

//go:embed files/delta_*.py files/spark-defaults.conf
var deltaFiles embed.FS

// Query runs SQL over tables, and returns an answer for each statement. Whatever
// the reader writes beside it goes to dir.
func (r DeltaReader) Query(ctx context.Context, dir string, tables []DeltaTable, sql ...string) ([]deltaRows, error) {
	type recipe struct {
		Code string `json:"code"`
	}
	input := struct {
		Tables  []DeltaTable `json:"tables"`
		Setup   string       `json:"setup"`
		Recipes []recipe     `json:"recipes"`
	}{Tables: tables}
	for _, code := range sql {
		input.Recipes = append(input.Recipes, recipe{code})
	}
	text, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	cmd, err := r.Command(ctx, dir)
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(text)
	out, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n") // the engine may print above: VACUUM does
	var answers []deltaRows
	return answers, json.Unmarshal([]byte(lines[len(lines)-1]), &answers)
}

// Command returns a program that reads {tables: [DeltaTable], setup, recipes:
// [{name, code}]} as JSON from standard input and prints [deltaRows]. It has not
// been started. Setup is SQL that the recipes need; deltalake ignores it.
func (r DeltaReader) Command(ctx context.Context, dir string) (*exec.Cmd, error) {
	script, err := deltaFiles.ReadFile("files/delta_" + string(r) + ".py")
	if err != nil {
		return nil, err
	}
	return r.Script(ctx, dir, string(script))
}

// Script returns any Python program, which can import the reader. What Spark writes
// goes to dir.
func (r DeltaReader) Script(ctx context.Context, dir, program string, args ...string) (*exec.Cmd, error) {
	python, err := DeltaPython()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", program}, args...)...)
	cmd.Env = os.Environ()
	if r == Spark {
		_, cmd.Env, err = sparkHome(dir, python)
	}
	return cmd, err
}

// DeltaPython returns a Python that has deltalake and pyarrow.
func DeltaPython() (string, error) {
	venv := filepath.Join(Tools(), "delta")
	jars, err := filepath.Glob(filepath.Join(venv, "jars", "delta-*.jar"))
	if err != nil || len(jars) == 0 {
		return "", Missing{Engine: "readers of Delta tables", Install: installer}
	}
	return filepath.Abs(filepath.Join(venv, "bin", "python"))
}

// sparkHome makes a home of Spark in dir, with our configuration: executors keep
// their files in its folder work, and Spark in the same second would share one.
func sparkHome(dir, python string) (home string, env []string, err error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", nil, Missing{Engine: "java", Install: installer}
	}
	if home, err = os.MkdirTemp(dir, "spark-"); err != nil {
		return "", nil, err
	}
	if home, err = filepath.Abs(home); err != nil {
		return "", nil, err
	}
	venv := filepath.Dir(filepath.Dir(python))
	for _, part := range []string{"bin", "jars"} {
		installed, err := filepath.Glob(filepath.Join(venv, "lib", "python*", "site-packages", "pyspark", part))
		if err != nil || len(installed) != 1 {
			return "", nil, errors.Join(err, Missing{Engine: "Spark", Install: installer})
		}
		if err := os.Symlink(installed[0], filepath.Join(home, part)); err != nil {
			return "", nil, err
		}
	}
	defaults, err := deltaFiles.ReadFile("files/spark-defaults.conf")
	if err != nil {
		return "", nil, err
	}
	jars, err := filepath.Glob(filepath.Join(venv, "jars", "delta-*.jar"))
	if err != nil {
		return "", nil, err
	}
	conf := fmt.Sprintf("%sspark.jars %s\nspark.local.dir %s\nspark.sql.warehouse.dir %s\n", defaults,
		strings.Join(jars, ","), filepath.Join(home, "local"), filepath.Join(home, "warehouse"))
	env = append(os.Environ(), "SPARK_HOME="+home, "SPARK_CONF_DIR="+filepath.Join(home, "conf"),
		"SPARK_LOCAL_IP=127.0.0.1", "PYSPARK_PYTHON="+python)
	return home, env, write(filepath.Join(home, "conf", "spark-defaults.conf"), conf)
}

// output runs a program to its end; its error carries what the program complained of.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := stderr.String()
		return "", fmt.Errorf("%w\n%s", err, text[max(0, len(text)-tailBytes):])
	}
	return string(out), nil
}
