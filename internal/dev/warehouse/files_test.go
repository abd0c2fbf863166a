package warehouse

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/parquet"
)

// lake writes h to ./data of a directory, which it returns.
func lake(t *testing.T, h history) (dir string) {
	t.Helper()
	dir = t.TempDir()
	publish(t, h, filepath.Join(dir, "data"))
	return dir
}

// bucket calls write with the URL of s3://lake/<prefix> of a new server.
func bucket(t *testing.T, h history, prefix string, write func(t *testing.T, h history, url string)) *engines.S3 {
	t.Helper()
	server := engines.RunS3(t)
	if err := server.CreateBucket(t.Context(), "lake"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	write(t, h, "s3://lake/"+prefix+"?path_style=true&region="+server.Region+"&endpoint="+server.Endpoint)
	return server
}

func publish(t *testing.T, h history, root string) {
	t.Helper()
	sink, err := parquet.New(root)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	h.into(t, sink)
}

// install installs the engines that read files.
const install = "make engines"

// tool is a script of testdata, run by a program.
func tool(t *testing.T, program, name string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(program, path)
}

func duckdb(t *testing.T) *exec.Cmd {
	t.Helper()
	modules := filepath.Join(engines.Tools(), "node", "node_modules")
	node, err := exec.LookPath("node")
	if _, absent := os.Stat(filepath.Join(modules, "@duckdb", "node-api")); err != nil || absent != nil {
		engines.Need(t, engines.Missing{Engine: "DuckDB", Install: install})
	}
	cmd := tool(t, node, "duckdb.cjs")
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	return cmd
}

func python(t *testing.T) *exec.Cmd {
	t.Helper()
	program := filepath.Join(engines.Tools(), "venv", "bin", "python")
	if exec.Command(program, "-c", "import pyarrow").Run() != nil {
		engines.Need(t, engines.Missing{Engine: "pyarrow", Install: install})
	}
	return tool(t, program, "pyarrow_run.py")
}

func TestDuckDB(t *testing.T) {
	cmd, h := duckdb(t), exported(t)
	setup, blocks := recipes(t, "duckdb", "duckdb", "duckdb-files")
	script(t, lake(t, h), cmd, setup, blocks)
}

func TestPyarrow(t *testing.T) {
	cmd, h := python(t), exported(t)
	setup, blocks := recipes(t, "pyarrow", "pyarrow")
	script(t, lake(t, h), cmd, setup, blocks)
}

func TestPyarrowS3(t *testing.T) {
	cmd, h := python(t), exported(t)
	server := bucket(t, h, "docs", publish)
	cmd.Env = append(os.Environ(), "AWS_EC2_METADATA_DISABLED=true")
	setup, blocks := recipes(t, "pyarrow-s3", "pyarrow")
	const amazon = `region="us-east-1"`
	if !strings.Contains(setup, amazon) {
		t.Fatalf("the setup for S3 has no %s", amazon)
	}
	here := amazon + `, endpoint_override="` + server.Endpoint + `"`
	script(t, t.TempDir(), cmd, strings.Replace(setup, amazon, here, 1), blocks)
}
