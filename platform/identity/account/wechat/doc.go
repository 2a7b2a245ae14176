// Package wechat asks WeChat who a login code is about.
//
// A page inside WeChat, or a mini program, gets a code from WeChat and sends it
// to the shop; the shop exchanges it, with the app's secret, for the openid: the
// person's name within that app, which a payment inside WeChat is made out to. A
// code is good for one exchange within five minutes, so an exchange is never
// repeated by this package: an answer that was lost has used the code up, and the
// client gets another without asking anybody.
//
// The answer also holds a session key or an access token to the person's
// profile. Neither is kept or read: the shop needs only the name.
//
// Package wechattest is a server that answers like WeChat's.
package wechat
