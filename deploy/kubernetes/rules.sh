#!/usr/bin/env bash
# Writes the rules of dashboards/prometheus where Kustomize and Helm take them
# from. Run it when they have changed.
set -euo pipefail
cd "$(dirname "$0")"
readonly RULES=../../dashboards/prometheus
readonly COMPONENT=components/monitoring/rules.yaml CHART=chart/files/rules.yaml

groups() {
  local file
  for file in "$RULES"/recording.rules.yml "$RULES"/alerts.rules.yml; do
    sed '1,/^groups:/d' "$file"
  done
}

{
  echo "groups:"
  groups
} >"$CHART"
{
  cat <<'END'
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gimbal
  labels:
    app.kubernetes.io/name: gimbal
    app.kubernetes.io/instance: gimbal
spec:
  groups:
END
  groups | sed 's/^\(.\)/  \1/'
} >"$COMPONENT"
