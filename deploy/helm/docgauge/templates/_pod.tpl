{{/* The state directory is below the mount, not at it and not at a subPath: the
volume's root and a subPath belong to root, and docgauge must own its state
directory to give it mode 0700. */}}
{{- define "docgauge.environment" -}}
- {name: DOCGAUGE_BASE_URL, value: {{ .Values.baseURL | quote }}}
- {name: DOCGAUGE_PROJECTS, value: {{ join "," .Values.projects | quote }}}
- {name: DOCGAUGE_STATE_DIR, value: /var/lib/docgauge/state}
{{- if not .Values.settings.DOCGAUGE_PARQUET_URL }}
- {name: DOCGAUGE_PARQUET_URL, value: /var/lib/docgauge/data}
{{- end }}
{{- if not .Values.settings.DOCGAUGE_LOG_FORMAT }}
- {name: DOCGAUGE_LOG_FORMAT, value: json}
{{- end }}
{{- if eq .Values.mode "deployment" }}
- {name: DOCGAUGE_SCHEDULE, value: {{ include "docgauge.schedule" . | quote }}}
- {name: DOCGAUGE_LISTEN_ADDRESS, value: ":{{ .Values.metrics.port }}"}
- {name: DOCGAUGE_ALLOWED_HOSTS, value: {{ include "docgauge.hosts" . | quote }}}
{{- if .Values.metrics.webConfigSecret }}
- {name: DOCGAUGE_WEB_CONFIG_FILE, value: /etc/docgauge/web/web.yaml}
{{- end }}
{{- end }}
{{- range include "docgauge.secretItems" . | fromYamlArray }}
- {name: {{ .variable }}_FILE, value: /etc/docgauge/secrets/{{ .file }}}
{{- end }}
{{- if include "docgauge.hasPrompts" . }}
- {name: DOCGAUGE_PROMPTS_DIR, value: /etc/docgauge/prompts}
- {name: DOCGAUGE_PROMPTS_ON_NEW_STATE, value: {{ .Values.prompts.onNewState }}}
{{- end }}
{{- range $name, $value := omit .Values.settings "DOCGAUGE_ALLOWED_HOSTS" }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "docgauge.mounts" -}}
- {name: data, mountPath: /var/lib/docgauge}
- {name: secrets, mountPath: /etc/docgauge/secrets, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if include "docgauge.hasPrompts" . }}
- {name: prompts, mountPath: /etc/docgauge/prompts, readOnly: true}
{{- end }}
{{- if and (eq .Values.mode "deployment") .Values.metrics.webConfigSecret }}
- {name: web, mountPath: /etc/docgauge/web, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "docgauge.volumes" -}}
- name: data
  {{- if .Values.persistence.existingClaim }}
  persistentVolumeClaim: {claimName: {{ .Values.persistence.existingClaim }}}
  {{- else if .Values.persistence.enabled }}
  persistentVolumeClaim: {claimName: {{ include "docgauge.fullname" . }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
- name: secrets
  secret:
    secretName: {{ include "docgauge.secretName" . }}
    # With fsGroup the group can read it too.
    defaultMode: 0400
    items:
      {{- range include "docgauge.secretItems" . | fromYamlArray }}
      - {key: {{ .key | quote }}, path: {{ .file }}}
      {{- end }}
- name: tmp
  emptyDir: {}
{{- if include "docgauge.hasPrompts" . }}
- name: prompts
  {{- if .Values.prompts.volume }}
  {{- toYaml .Values.prompts.volume | nindent 2 }}
  {{- else }}
  configMap:
    name: {{ default (printf "%s-prompts" (include "docgauge.fullname" .)) .Values.prompts.existingConfigMap }}
  {{- end }}
{{- end }}
{{- if and (eq .Values.mode "deployment") .Values.metrics.webConfigSecret }}
- name: web
  secret:
    secretName: {{ .Values.metrics.webConfigSecret }}
    defaultMode: 0400
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "docgauge.container" -}}
image: {{ include "docgauge.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  {{- include "docgauge.environment" . | nindent 2 }}
volumeMounts:
  {{- include "docgauge.mounts" . | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- end }}

{{- define "docgauge.podMetadata" -}}
labels:
  {{- include "docgauge.labels" . | nindent 2 }}
  {{- with .Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  {{- if not .Values.secrets.existingSecret }}
  # docgauge reloads changed keys; other secrets need a new pod.
  checksum/secret: {{ include (print $.Template.BasePath "/secret.yaml") . | sha256sum }}
  {{- end }}
  kubectl.kubernetes.io/default-container: docgauge
  {{- with .Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The pod of both modes without its containers. Service links are off: docgauge
would refuse the variables of a Service docgauge-… as unknown. */}}
{{- define "docgauge.pod" -}}
serviceAccountName: {{ include "docgauge.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.extraInitContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  {{- include "docgauge.volumes" . | nindent 2 }}
{{- end }}
