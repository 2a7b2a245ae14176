// Package sms sends text messages through a gateway.
//
// # The gateway's side
//
// Every provider has an interface of its own; what they have in common is one
// POST for one message. Gateway speaks the plainest form of it, so that a few
// lines in front of any provider are an adapter:
//
//	POST <url>
//	Content-Type: application/json
//	Stampede-Timestamp: 1763600000
//	Stampede-Signature: <hex HMAC-SHA256 of timestamp, line feed, body>
//
//	{"id": "…", "phone": "+8613800138000", "text": "【…】…"}
//
// 2xx means taken over. 400 to 499 (but 408, 425 and 429) mean that this message
// will never be sent; anything else is tried again with the same id, which a
// gateway sends once. Package sandbox is a gateway that sends nothing and shows
// what it got.
//
// # Secrets
//
// A text holds a code. It is sent and nowhere else: not in logs, not in errors,
// not in metrics. Errors carry the status of the answer and not its body, which
// may repeat the text.
package sms
