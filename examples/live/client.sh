#!/usr/bin/env bash
# A client of `sooner serve` with curl: bash client.sh [http://127.0.0.1:8000]. The token, if one is needed, is in SOONER_TOKEN.
set -euo pipefail
service=${1:-http://127.0.0.1:8000}
headers=(-H "Authorization: Bearer ${SOONER_TOKEN:-none}")

# Observations, one JSON object per line. --retry repeats what a full service refuses (429, 503, 507).
printf '%s\n' '{"series": "pump-7", "x": [5.1, 6.3]}' '{"series": "pump-8", "x": [4.4, 2.9]}' |
  curl -sS --fail-with-body --retry 5 "${headers[@]}" --data-binary @- "$service/v1/observations"
echo

# How a series stands, its end, and the decisions so far.
curl -sS --fail-with-body "${headers[@]}" "$service/v1/series/pump-7"
echo
curl -sS --fail-with-body "${headers[@]}" -X POST "$service/v1/series/pump-7/finish"
echo
curl -sS --fail-with-body "${headers[@]}" "$service/v1/decisions?after=0&limit=10"
echo

# Decisions as they are made; -N prints each at once. This one stops after two seconds.
curl -sSN "${headers[@]}" -H "Accept: text/event-stream" -H "Last-Event-ID: 0" --max-time 2 "$service/v1/decisions" || true
