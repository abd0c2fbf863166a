{{/* 52 letters: the name of a CronJob must leave room for the names of its jobs. */}}
{{- define "docgauge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "docgauge.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "docgauge.labels" -}}
{{ include "docgauge.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.organisation }}
organisation: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "docgauge.metadata" -}}
name: {{ include "docgauge.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "docgauge.labels" . | nindent 2 }}
{{- end }}

{{/* The names of the Service, and those of the settings. */}}
{{- define "docgauge.hosts" -}}
{{- $service := include "docgauge.fullname" . -}}
{{- $space := printf "%s.%s" $service .Release.Namespace -}}
{{- $names := list $service $space (printf "%s.svc" $space) (printf "%s.svc.cluster.local" $space) -}}
{{- with .Values.settings.DOCGAUGE_ALLOWED_HOSTS }}{{ $names = append $names . }}{{ end -}}
{{- join "," $names -}}
{{- end }}

{{- define "docgauge.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "docgauge.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "docgauge.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* The minute follows from the name, so that hundreds of releases do not export at once. */}}
{{- define "docgauge.schedule" -}}
{{- if .Values.schedule -}}
{{- .Values.schedule -}}
{{- else -}}
{{- printf "%d * * * *" (mod (adler32sum (printf "%s/%s" .Release.Namespace .Release.Name) | int64) 60) -}}
{{- end -}}
{{- end }}

{{/* All secrets; `make docs` writes the list. A sink is one that needs it. */}}
{{- define "docgauge.secrets" }}
- {variable: DOCGAUGE_API_KEY, value: apiKey, file: api-key, sink: ""}
- {variable: DOCGAUGE_CLICKHOUSE_DSN, value: clickhouseDSN, file: clickhouse-dsn, sink: "clickhouse"}
- {variable: DOCGAUGE_POSTGRES_DSN, value: postgresDSN, file: postgres-dsn, sink: "postgres"}
- {variable: DOCGAUGE_PUSHGATEWAY_URL, value: pushgatewayURL, file: pushgateway-url, sink: ""}
- {variable: DOCGAUGE_WRITE_API_KEY, value: writeAPIKey, file: write-api-key, sink: ""}
- {variable: DOCGAUGE_GITHUB_TOKEN, value: githubToken, file: github-token, sink: ""}
- {variable: DOCGAUGE_GITLAB_TOKEN, value: gitlabToken, file: gitlab-token, sink: ""}
- {variable: DOCGAUGE_GITEA_TOKEN, value: giteaToken, file: gitea-token, sink: ""}
- {variable: DOCGAUGE_NOTIFY_URL, value: notifyURL, file: notify-url, sink: ""}
- {variable: DOCGAUGE_NOTIFY_SECRET, value: notifySecret, file: notify-secret, sink: ""}
- {variable: DOCGAUGE_PING_URL, value: pingURL, file: ping-url, sink: ""}
{{- end }}

{{/* The entries of the Secret, as YAML: the variable, its file, and its key. */}}
{{- define "docgauge.secretItems" -}}
{{- range include "docgauge.secrets" . | fromYamlArray }}
{{- if $.Values.secrets.existingSecret }}
{{- $key := index $.Values.secrets.existingKeys .value }}
{{- if $key }}
- {variable: {{ .variable }}, file: {{ .file }}, key: {{ $key | quote }}}
{{- end }}
{{- else if index $.Values.secrets .value }}
- {variable: {{ .variable }}, file: {{ .file }}, key: {{ .file }}, value: {{ .value }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "docgauge.secretName" -}}
{{- default (include "docgauge.fullname" .) .Values.secrets.existingSecret -}}
{{- end }}

{{- define "docgauge.hasServers" -}}
{{- range include "docgauge.secrets" . | fromYamlArray -}}
{{- if and .sink (contains .sink (default "" $.Values.settings.DOCGAUGE_SINKS)) }}yes{{ end -}}
{{- end -}}
{{- end }}

{{- define "docgauge.hasPrompts" -}}
{{- if or .Values.prompts.files .Values.prompts.existingConfigMap .Values.prompts.volume }}yes{{ end -}}
{{- end }}

{{/* Rules on several values; values.schema.json has the rules on single values. */}}
{{- define "docgauge.rules" -}}
{{- if and (eq .Values.image.tag "latest") (not .Values.image.digest) -}}
{{- fail "image.tag: latest is another program tomorrow: set a version, or a digest" -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if and (hasPrefix "DOCGAUGE_" .name) (ne .name "DOCGAUGE_ENV_FILE") -}}
{{- fail (printf "extraEnv: %s: variables of docgauge belong in settings, secrets in secrets" .name) -}}
{{- end -}}
{{- end -}}
{{- $sources := 0 -}}
{{- range list .Values.prompts.files .Values.prompts.existingConfigMap .Values.prompts.volume -}}
{{- if . }}{{ $sources = add1 $sources }}{{ end -}}
{{- end -}}
{{- if gt (int $sources) 1 -}}
{{- fail "prompts: set one of files, existingConfigMap and volume" -}}
{{- end -}}
{{- $has := dict -}}
{{- range include "docgauge.secretItems" . | fromYamlArray -}}
{{- $_ := set $has .variable true -}}
{{- end -}}
{{- if not $has.DOCGAUGE_API_KEY -}}
{{- fail "secrets: set existingSecret (and existingKeys.apiKey), or for a trial apiKey" -}}
{{- end -}}
{{- range include "docgauge.secrets" . | fromYamlArray -}}
{{- if and $.Values.secrets.existingSecret (index $.Values.secrets .value) -}}
{{- fail "secrets: with existingSecret the chart makes no Secret: put the values into that one, and name its keys in existingKeys" -}}
{{- end -}}
{{- if and .sink (contains .sink (default "" $.Values.settings.DOCGAUGE_SINKS)) (not (hasKey $has .variable)) -}}
{{- fail (printf "settings.DOCGAUGE_SINKS has %s: set secrets.existingKeys.%s, or for a trial secrets.%s" .sink .value .value) -}}
{{- end -}}
{{- end -}}
{{- if and $has.DOCGAUGE_NOTIFY_SECRET (not $has.DOCGAUGE_NOTIFY_URL) -}}
{{- fail "secrets: notifySecret has no effect without notifyURL" -}}
{{- end -}}
{{- if and (eq .Values.mode "cronjob") (ne .Values.metrics.monitor.kind "none") -}}
{{- fail "metrics.monitor: a pod of mode cronjob ends before it is scraped: push (secrets.pushgatewayURL) or write a textfile (settings.DOCGAUGE_TEXTFILE), and set metrics.monitor.kind=none" -}}
{{- end -}}
{{- if and (eq .Values.metrics.monitor.kind "ServiceMonitor") (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.monitor.kind ServiceMonitor needs metrics.service.enabled; PodMonitor does not" -}}
{{- end -}}
{{- end }}

{{- define "docgauge.pushes" -}}
{{- range include "docgauge.secretItems" . | fromYamlArray -}}
{{- if eq .variable "DOCGAUGE_PUSHGATEWAY_URL" }}yes{{ end -}}
{{- end -}}
{{- end }}
