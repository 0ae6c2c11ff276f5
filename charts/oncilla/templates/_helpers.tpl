{{- define "oncilla.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The objects' name. A release that is called like the chart does not say it twice. */}}
{{- define "oncilla.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "oncilla.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "oncilla.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the controller's pods. A Deployment's selector cannot be changed, so nothing is to be added here. */}}
{{- define "oncilla.selectorLabels" -}}
app.kubernetes.io/name: {{ include "oncilla.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "oncilla.labels" -}}
{{ include "oncilla.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "oncilla.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "oncilla.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/*
The objects of a generated file, with the chart's labels. The files are read and not included as templates: whatever
stands in them is text to Helm. Call with (dict "root" $ "file" PATH "annotations" MAP).
*/}}
{{- define "oncilla.generated" -}}
{{- $text := .root.Files.Get .file -}}
{{- if not $text -}}
{{- fail (printf "the chart lacks %s: it is a generated file, make generate writes it" .file) -}}
{{- end -}}
{{- range $document := splitList "\n---\n" (printf "\n%s" $text) -}}
{{- $object := fromYaml $document -}}
{{- if hasKey $object "Error" -}}
{{- fail (printf "%s: %s" $.file $object.Error) -}}
{{- end -}}
{{- if $object -}}
{{- $_ := set $object.metadata "labels" (merge (include "oncilla.labels" $.root | fromYaml) (default dict $object.metadata.labels)) -}}
{{- if $.annotations -}}
{{- $_ := set $object.metadata "annotations" (merge $.annotations (default dict $object.metadata.annotations)) -}}
{{- end }}
---
{{ toYaml $object }}
{{- end -}}
{{- end -}}
{{- end -}}
