// docgauge as a monitoring mixin: dashboards, alerts and recording rules. They are
// the files of dashboards/json and deploy/prometheus; _config changes what it can.
local base = {
  dashboards: {
    'docgauge-readers.json': import '../dashboards/json/docgauge-readers.json',
    'docgauge-history.json': import '../dashboards/json/docgauge-history.json',
    'docgauge-history-postgres.json': import '../dashboards/json/docgauge-history-postgres.json',
    'docgauge-agent-jobs.json': import '../dashboards/json/docgauge-agent-jobs.json',
    'docgauge-assistants.json': import '../dashboards/json/docgauge-assistants.json',
    'docgauge-pipeline.json': import '../dashboards/json/docgauge-pipeline.json',
  },
  alerts: std.parseYaml(importstr '../deploy/prometheus/alerts.yaml'),
  rules: std.parseYaml(importstr '../deploy/prometheus/recording.yaml'),
};

{
  // null leaves what the files have. There is no selector: no rule depends on the
  // value of the label job, and the dashboards choose the instance.
  _config+:: {
    // false leaves out the dashboard of the history in that database.
    clickhouse: true,
    postgres: true,
    dashboardTags: null,
    dashboardRefresh: null,
    // Labels for every alert, beside severity: { team: 'docs' }.
    alertLabels: {},
    // The page with the sections of the alerts, without '#'.
    runbookURL: null,
  },

  grafanaDashboardFolder:: 'docgauge',

  local config = $._config,

  grafanaDashboards+:: {
    [name]: base.dashboards[name] {
      [if config.dashboardTags != null then 'tags']: config.dashboardTags,
      [if config.dashboardRefresh != null then 'refresh']: config.dashboardRefresh,
    }
    for name in std.objectFields(base.dashboards)
    if (config.clickhouse || name != 'docgauge-history.json')
       && (config.postgres || name != 'docgauge-history-postgres.json')
  },

  local adapted(alert) = alert {
    labels+: config.alertLabels,
    annotations+: {
      [if config.runbookURL != null then 'runbook_url']:
        config.runbookURL + '#' + std.split(alert.annotations.runbook_url, '#')[1],
    },
  },

  prometheusAlerts+:: {
    groups+: [group { rules: std.map(adapted, super.rules) } for group in base.alerts.groups],
  },

  prometheusRules+:: {
    groups+: base.rules.groups,
  },
}
