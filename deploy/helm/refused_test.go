package helm

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRefused: what is wrong is refused before anything is installed, by a line
// that says where it is and what it should be.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, values, set, want string }{
		{"a typo", "deployment", "projets={a}", "additional properties 'projets' not allowed"},
		{"a typo below", "deployment", "image.tags=v1", "at '/image': additional properties 'tags' not allowed"},
		{"another mode", "deployment", "mode=statefulset", "at '/mode': value must be one of 'deployment', 'cronjob'"},
		{"replicas", "deployment", "replicas=2", "additional properties 'replicas' not allowed"},
		{"no project", "deployment", "projects=null", "missing property 'projects'"},
		{"a project id", "deployment", "projects={prj a}", "at '/projects/0': 'prj a' does not match pattern '^[A-Za-z0-9_-]{1,128}$'"},
		{"plain http", "deployment", "baseURL=http://api.example.com", "at '/baseURL': 'http://api.example.com' does not match pattern"},
		{"no base URL", "deployment", "baseURL=", "at '/baseURL': '' does not match pattern"},
		{"no key", "deployment", "secrets.apiKey=", "secrets: set existingSecret (and existingKeys.apiKey), or for a trial apiKey"},
		{"no key in the Secret", "cronjob", "secrets.existingKeys.apiKey=", "secrets: set existingSecret (and existingKeys.apiKey)"},
		{"two Secrets", "cronjob", "secrets.apiKey=a_b", "secrets: with existingSecret the chart makes no Secret"},
		{"a setting", "deployment", "settings.DOCGAUGE_BUGDET=1", "additional properties 'DOCGAUGE_BUGDET' not allowed"},
		{"a number", "deployment", "settings.DOCGAUGE_BUDGET=80", "at '/settings/DOCGAUGE_BUDGET': got number, want string"},
		{"a secret as a setting", "deployment", "settings.DOCGAUGE_API_KEY=a_b", "additional properties 'DOCGAUGE_API_KEY' not allowed"},
		{"a setting as env", "deployment", "extraEnv[0].name=DOCGAUGE_BUDGET", "extraEnv: DOCGAUGE_BUDGET: variables of docgauge belong into settings"},
		{"ClickHouse without DSN", "deployment", `settings.DOCGAUGE_SINKS=parquet\,clickhouse`, "set secrets.existingKeys.clickhouseDSN"},
		{"a signature for nobody", "deployment", "secrets.notifySecret=x", "notifySecret has no effect without notifyURL"},
		{"latest", "deployment", "image.tag=latest", "image.tag: latest is another program tomorrow"},
		{"half a digest", "deployment", "image.digest=sha256:12", "at '/image/digest': 'sha256:12' does not match pattern"},
		{"four fields", "deployment", "schedule=1 * * *", "at '/schedule': '1 * * *' does not match pattern"},
		{"two prompt folders", "podmonitor", `prompts.files.a\.md=x`, "prompts: set one of files, existingConfigMap and volume"},
		{"no prompt file", "deployment", `prompts.files.a\.yaml=x`, "at '/prompts/files': additional properties 'a.yaml' not allowed"},
		{"scraping a cron job", "cronjob", "metrics.monitor.kind=PodMonitor", "metrics.monitor: a pod of mode cronjob ends before it is scraped"},
		{"no Service", "deployment", "metrics.service.enabled=false,metrics.monitor.kind=ServiceMonitor", "needs metrics.service.enabled"},
		{"many writers", "deployment", "persistence.accessMode=ReadWriteMany", "at '/persistence/accessMode': value must be one of"},
		{"a short stop", "deployment", "deployment.terminationGracePeriodSeconds=5", "minimum: got 5, want 30"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, said, err := helm(t, "template", "acme", chart, "--kube-version", kubernetes, "--values", values(tc.values), "--set", tc.set)
			if err == nil || !strings.Contains(said, tc.want) {
				t.Errorf("--set %s: %v, %q, want %q\n%.200s", tc.set, err, said, tc.want, out)
			}
		})
	}
}

// own are the variables that have values of their own, not under settings.
var own = []string{
	"DOCGAUGE_BASE_URL", "DOCGAUGE_PROJECTS", "DOCGAUGE_SCHEDULE", "DOCGAUGE_LISTEN_ADDRESS", "DOCGAUGE_WEB_CONFIG_FILE",
	"DOCGAUGE_STATE_DIR", "DOCGAUGE_PROMPTS_DIR", "DOCGAUGE_PROMPTS_ON_NEW_STATE",
	"DOCGAUGE_API_KEY", "DOCGAUGE_WRITE_API_KEY", "DOCGAUGE_CLICKHOUSE_DSN", "DOCGAUGE_NOTIFY_URL", "DOCGAUGE_NOTIFY_SECRET",
	"DOCGAUGE_PUSHGATEWAY_URL",
}

// variables returns those of the program, from the README's table, which a test
// beside the program holds against the code, and which of them are secrets.
func variables(t *testing.T) (all, secrets []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(DOCGAUGE_[A-Z_]+)` \\|.*$").FindAllStringSubmatch(string(text), -1) {
		all = append(all, row[1])
		if strings.Contains(row[0], row[1]+"_FILE") {
			secrets = append(secrets, row[1])
		}
	}
	if len(all) < 30 || len(secrets) < 6 {
		t.Fatalf("%d variables and %d secrets in README.md", len(all), len(secrets))
	}
	return all, secrets
}

// TestSettings: each variable of the program can be set, and no other.
func TestSettings(t *testing.T) {
	var schema struct {
		Properties struct {
			Settings struct{ Properties map[string]any }
		}
	}
	text, err := os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	all, secrets := variables(t)
	for _, name := range secrets {
		if !slices.Contains(own, name) {
			t.Errorf("%s is a secret: give it an entry in docgauge.secretItems and below secrets, not in settings", name)
		}
	}
	want := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(own, name) })
	slices.Sort(want)
	if diff := cmp.Diff(want, keys(object(schema.Properties.Settings.Properties))); diff != "" {
		t.Errorf("settings in values.schema.json (-program +chart): %s", diff)
	}
}
