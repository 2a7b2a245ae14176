// Package sms sends text messages, through Tencent Cloud (package tencent), Aliyun (package
// aliyun) or a gateway of the shop's own.
//
// # Templates
//
// Both providers send only texts that they approved. Every text is a Template with a key,
// --sms-templates gives its ids, and the handbook's page "Channels" lists what to register. A
// package with texts of its own adds them with Register and sends Template.Message.
//
// # Once or twice
//
// A gateway sends a message once, however often it gets its id, so Gateway tries twice. The
// providers would send it twice, so they get it once, and an error after which it may have
// been sent wraps outbound.ErrUnclear. The caller decides: a shopper asks for another code, a
// note is dropped, a message to a shopper ends as one that may have arrived.
//
// # The gateway's side
//
// Every provider has a different API, but all of them have one POST for one message.
// Gateway sends the plainest form of it, so that a few lines of code in front of any
// provider make an adapter:
//
//	POST <url>
//	Content-Type: application/json
//	Stampede-Timestamp: 1763600000
//	Stampede-Signature: <hex HMAC-SHA256 of timestamp, line feed, body>
//
//	{"id": "…", "phone": "+8613800138000", "text": "【…】…",
//	 "template": "code-login", "params": [{"name": "code", "value": "…"}]}
//
// 2xx means accepted. 400 to 499 (except 408, 425 and 429) mean that this message
// will never be sent; after any other status it is retried with the same id, which a
// gateway must send once. Package sandbox sends nothing and shows what it was given.
//
// # Secrets
//
// A text contains a code. It goes to the gateway only: not into logs, errors or
// metrics. Errors carry the status of the answer but not its body, which may repeat
// the text.
package sms
