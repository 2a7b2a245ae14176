package wechat

import (
	"errors"

	"stampede/platform/edge/httpx"
)

// Settings configure the WeChat app for logins.
type Settings struct {
	WechatAppID     string `default:"" env:"STAMPEDE_WECHAT_APP_ID" help:"WeChat app that shoppers log in with. Empty: no WeChat login."`
	WechatAppSecret string `default:"" env:"STAMPEDE_WECHAT_APP_SECRET" help:"That app's secret." secret:""`
	WechatKind      Kind   `default:"official" enum:"official,mini" env:"STAMPEDE_WECHAT_KIND" help:"Type of the app: official (account, web page) or mini (program)." rare:""`
	WechatURL       string `default:"https://api.weixin.qq.com" env:"STAMPEDE_WECHAT_URL" help:"Base URL of WeChat's API, without a path." rare:""`
}

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	if (s.WechatAppID == "") != (s.WechatAppSecret == "") {
		return errors.New("--wechat-app-id and --wechat-app-secret belong together: give both or neither")
	}
	if s.WechatAppID != "" && !httpx.Private(s.WechatURL) {
		return errors.New("--wechat-url must begin with https://, or http:// and a loopback address: the app's secret is sent there")
	}
	return nil
}
