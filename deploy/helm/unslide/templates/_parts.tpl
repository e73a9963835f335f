{{- define "unslide.labels" -}}
app.kubernetes.io/part-of: unslide
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "unslide.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The name that kustomize gives: a changed configuration has a new name, so that the pods take it. */}}
{{- define "unslide.config-name" -}}
{{- $hash := dict "kind" "ConfigMap" "name" "" "data" (dict "unslide.toml" .Values.config) | toJson | sha256sum | trunc 10 -}}
unslide-config-{{ $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
{{- end }}

{{- define "unslide.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-delete-policy: before-hook-creation
{{- end }}

{{- define "unslide.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "unslide.traces" -}}
{{- if .Values.traces.enabled }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .Values.traces.endpoint }}
{{- end }}
{{- end }}

{{- define "unslide.history" -}}
{{- if .Values.history.enabled }}
- name: UNSLIDE_HISTORY__URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.history.secret }}
      key: UNSLIDE_HISTORY__URL
- name: UNSLIDE_HISTORY__PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .Values.history.secret }}
      key: UNSLIDE_HISTORY__PASSWORD
{{- end }}
{{- end }}

{{- define "unslide.mounts" -}}
{{- with .Values.extraVolumeMounts }}
{{- toYaml . }}
{{- end }}
{{- if .Values.privateCa.configMap }}
- name: ca
  mountPath: /etc/unslide-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "unslide.volumes" -}}
{{- with .Values.extraVolumes }}
{{- toYaml . }}
{{- end }}
{{- with .Values.privateCa.configMap }}
- name: ca
  configMap:
    name: {{ . }}
{{- end }}
{{- end }}
