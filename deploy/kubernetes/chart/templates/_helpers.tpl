{{- define "gimbal.labels" -}}
app.kubernetes.io/name: gimbal
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gimbal.chartLabels" -}}
{{ include "gimbal.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gimbal.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "gimbal.claim" -}}
{{ .Values.volume.existingClaim | default .Release.Name }}
{{- end }}

{{- define "gimbal.tokenSecret" -}}
{{ .Values.auth.tokenSecret | default (printf "%s-token" .Release.Name) }}
{{- end }}

{{- /* The run's config as a tree, of JSON. */ -}}
{{- define "gimbal.config" -}}
{{- $config := fromYaml .Values.config -}}
{{- if hasKey $config "Error" -}}
{{- fail (printf "config: %s" (get $config "Error")) -}}
{{- end -}}
{{- if not (dig "pipeline" "stages" 0 $config) -}}
{{- fail "config: expected the text of a run's config with pipeline.stages: --set-file config=my.yaml" -}}
{{- end -}}
{{- toJson $config -}}
{{- end }}

{{- /* Workers that share the stages. */ -}}
{{- define "gimbal.workers" -}}
{{- $stages := int (dig "pipeline" "stages" 1 (include "gimbal.config" . | fromJson)) -}}
{{- $count := int .Values.workers.count | default $stages -}}
{{- if gt $count $stages -}}
{{- fail (printf "workers.count: found %d, expected at most pipeline.stages, %d; workers.spares are beyond those" $count $stages) -}}
{{- end -}}
{{- $count -}}
{{- end }}

{{- /* cluster.grace of the config, rounded up to seconds, and 30 s. */ -}}
{{- define "gimbal.terminationGrace" -}}
{{- $grace := dig "cluster" "grace" "120s" (include "gimbal.config" . | fromJson) -}}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)?(ms|s|m|h)$" $grace) -}}
{{- fail (printf "config.cluster.grace: found '%s', expected a duration such as 3s, 500ms or 2m" $grace) -}}
{{- end -}}
{{- $number := regexFind "^[0-9.]+" $grace -}}
{{- $unit := trimPrefix $number $grace -}}
{{- $seconds := mulf (float64 $number) (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit) -}}
{{- add (ceil $seconds) 30 -}}
{{- end }}

{{- define "gimbal.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gimbal.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "gimbal.authEnv" -}}
- {name: GIMBAL_TOKEN_FILE, value: /etc/gimbal/token/token}
{{- if .Values.auth.tlsSecret }}
- {name: GIMBAL_TLS_CA, value: /etc/gimbal/tls/ca.crt}
- {name: GIMBAL_TLS_CERT, value: /etc/gimbal/tls/tls.crt}
- {name: GIMBAL_TLS_KEY, value: /etc/gimbal/tls/tls.key}
{{- end }}
{{- end }}

{{- define "gimbal.authMounts" -}}
- {name: token, mountPath: /etc/gimbal/token, readOnly: true}
{{- if .Values.auth.tlsSecret }}
- {name: tls, mountPath: /etc/gimbal/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "gimbal.authVolumes" -}}
- name: token
  secret: {secretName: {{ include "gimbal.tokenSecret" . }}, defaultMode: 0440}
{{- if .Values.auth.tlsSecret }}
- name: tls
  secret: {secretName: {{ .Values.auth.tlsSecret }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- /* Of both containers: alive while the main loop turns, whatever it waits for. */ -}}
{{- define "gimbal.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: {{ .startupFailures }}
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- /* 2: bad config or usage, 3: failed for good; 4: ended at a checkpoint, from
which the next pod goes on. */ -}}
{{- define "gimbal.podFailurePolicy" -}}
rules:
  - action: {{ .onFailure }}
    onExitCodes: {containerName: {{ .container }}, operator: In, values: [2, 3]}
  - action: Ignore
    onExitCodes: {containerName: {{ .container }}, operator: In, values: [4]}
  - action: Ignore
    onPodConditions:
      - {type: DisruptionTarget, status: "True"}
{{- end }}
