// Package wechat exchanges a login code for the WeChat user's identity.
//
// A page inside WeChat, or a mini program, gets a code from WeChat and sends it to
// the shop. The shop exchanges it, with the app's secret, for the openid: the
// person's id within that app, which WeChat payments need. A code is valid for one
// exchange within five minutes, so this package never retries an exchange: a lost
// answer has used the code up, and the client can get another without user
// interaction.
//
// A shop may have an official account and a mini program. A person has another openid in
// each, and one union id in both if the shop has bound them at WeChat's open platform.
//
// Package account requires of a page's code the state that this client got before. An
// app with WeChat's SDK gets a state the same way; a mini program's code passes through
// no URL and has none.
//
// The answer also contains a session key or an access token to the person's profile.
// Neither is kept or read: the shop needs only the id.
//
// Package wechattest is a fake of WeChat's server.
package wechat
