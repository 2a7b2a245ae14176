// Package wechatpay is WeChat Pay (API v3) as a payment provider: "native" (a QR code
// that the shopper's phone scans), "jsapi" (inside WeChat) and "h5" (a phone's
// browser).
//
// # Signatures
//
// A request carries WECHATPAY2-SHA256-RSA2048 over method, path with query, time,
// nonce and body, by the merchant's key. Replies and callbacks carry the same over
// time, nonce and body, by a key of WeChat Pay that the header Wechatpay-Serial names:
// the public key of the merchant platform (an id that begins with PUB_KEY_ID_), or a
// platform certificate, of which several are valid while they rotate; both may be in
// use at the same time during a migration. A client with a public key names it in that
// header of its requests, and WeChat Pay signs the reply by it. A client that was given a
// certificate asks for the present ones every 12 hours, in front of another call, and believes those that a
// reply signed by a believed key names; after a restart it begins with the settings again. A message more than five minutes old or
// ahead is refused, and so is a probe, whose signature begins with
// WECHATPAY/SIGNTEST/. The resource of a callback is encrypted with AES-256-GCM under
// the APIv3 key.
//
// # What a shop has to know
//
//   - A payment may be closed and queried by our number, which needs no reference.
//   - A refund that WeChat Pay calls ABNORMAL (a closed card, for example) has failed:
//     the money stays with the merchant.
//   - A payment that was refunded is still a capture.
//   - An "h5" payment works from a page of the domain that the merchant registered for H5
//     payments (H5支付域名): WeChat's page compares the Referer with it.
//   - An h5_url is good for five minutes, a code_url and a prepay_id for two hours. The same
//     payment may be created again.
//   - The statement is the bills of payments and of refunds (v3/bill/tradebill), made by
//     ten in the morning of the next day, in China's time. A day without movements has none.
//
// payment/wechatpay/standin is the company for practice and tests.
//
// Sources: pay.weixin.qq.com/doc/v3/merchant, in particular 4012365342 (signatures),
// 4013053249 (public key mode), 4012071382 (callbacks).
package wechatpay
