#!/usr/bin/env bash
# Plans a sale, sells a unit of it, and reads the news of it.
set -euo pipefail
# [client]
# api TOKEN PATH [curl's arguments]
api() {
  curl -sS --fail-with-body -H "Authorization: Bearer $1" -H 'Content-Type: application/json' \
    "$SHOP/api/v1/$2" "${@:3}"
}
field() { grep -o "\"$1\":\"[^\"]*" | cut -d'"' -f4 | tail -n 1; } # the last of a name
utc() { date -u -d "+$1 seconds" +%FT%TZ 2>/dev/null || date -u -v "+$1S" +%FT%TZ; }
# [/client]

# [plan]
# The prices are in fen. Sent again, the same document changes nothing.
OPENS=$(utc 5) CLOSES=$(utc 3600)
ITEM=$(api "$KEY" admin/activities/by-external-id/first-sh -X PUT -d '{
  "name": "First sale", "starts_at": "'"$OPENS"'", "ends_at": "'"$CLOSES"'", "publish": true,
  "sessions": [{"external_id": "first-sh-noon", "name": "Noon",
    "opens_at": "'"$OPENS"'", "closes_at": "'"$CLOSES"'", "items": [{
    "external_id": "first-sh-phone", "sku": "phone", "title": "Phone", "stock": 100,
    "list_price": {"amount": 599900, "currency": "CNY"},
    "sale_price": {"amount": 499900, "currency": "CNY"}}]}]}' | field id)
# [/plan]

# [sell]
# A user of the shop's own system.
ME=$(api "$KEY" auth/exchange-user -d '{"subject": "user-sh"}' | field access_token)
sleep 5 # the opening
# One path is one attempt: it can be sent again and has its effect once.
P=$(api "$ME" "items/$ITEM/rush-path" -d '{"quantity": 1}')
NO=$(api "$ME" "rush/$(echo "$P" | field path)" -X POST --retry 10 | field order_no)
# In line: an answer with Retry-After until the order exists.
PAY=$(api "$ME" "orders/$NO/payments" -d '{}' --retry 10 --retry-all-errors)
PAY_URL=$(echo "$PAY" | field pay_url) # the shopper's browser goes there
# [/sell]

# The sandbox also takes a payment from a program.
curl -sS -o /dev/null -H 'Content-Type: application/json' -d '{"action":"pay"}' "$PAY_URL"

# [receive]
# curl cannot be posted to: it pulls the same events, and waits for the first one.
NEXT=""
until echo "${EVENTS=}" | grep -q "$NO"; do
  EVENTS=$(api "$KEY" "events?type=order.paid&wait=30&after=$NEXT")
  NEXT=$(echo "$EVENTS" | field next)
done
# verify ID TIMESTAMP SIGNATURE BODY checks a delivery with the webhook's $SECRET.
verify() {
  local key want
  key=$(echo "${SECRET#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
  want=$(printf %s "$1.$2.$4" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
  case " $3 " in *" v1,$want "*) ;; *) return 1 ;; esac
  [ $(($(date +%s) - $2)) -lt 300 ]
}
# [/receive]
echo "$(api "$ME" "orders/$NO" | field status) $NO"
