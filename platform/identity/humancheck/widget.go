package humancheck

import (
	"net/url"
	"strings"

	"stampede/platform/edge/httpx"
)

// VerifierWidget is what a page passes to the verifier's script.
type VerifierWidget struct {
	Provider VerifierKind `json:"provider" enum:"siteverify,geetest,tencent,aliyun" doc:"Whose widget it is, and so what the token is. siteverify: the text that the widget gave. The others: \"<cdata>.<answer>\", where the answer is a JSON object in unpadded base64url with exactly the string members lot_number, captcha_output, pass_token and gen_time (geetest), ticket and randstr (tencent), or captcha_verify_param (aliyun), as the widget gave them. The header has at most 4,096 bytes"`
	Script   string       `json:"script,omitempty" format:"uri" doc:"The widget's script, if the shop's own pages run it" example:"https://challenges.cloudflare.com/turnstile/v0/api.js"`
	SiteKey  string       `json:"site_key" doc:"The shop's public key at the provider: sitekey, captchaId, CaptchaAppId or SceneId" example:"1x00000000000000000000AA"`
	Prefix   string       `json:"prefix,omitempty" doc:"aliyun: the prefix in AliyunCaptchaConfig" example:"1ab2cd"`
	Region   string       `json:"region,omitempty" enum:"cn,sgp" doc:"aliyun: the region in AliyunCaptchaConfig"`
	Action   string       `json:"action" doc:"siteverify: pass it to the widget unchanged" example:"rush"`
	Data     string       `json:"cdata" doc:"siteverify: pass it to the widget unchanged. The others: begin the token with it. It binds the token to you" example:"c2Vzc2lvbg"`
}

// turnstile is the host of Cloudflare's siteverify, the only one whose widget the shop's
// pages run.
const turnstile = "challenges.cloudflare.com"

// scripts are the widgets' scripts, and what their pages load in turn.
var scripts = map[VerifierKind]struct {
	script string
	httpx.ThirdParty
}{
	Siteverify: {
		"https://" + turnstile + "/turnstile/v0/api.js?render=explicit", httpx.ThirdParty{Scripts: "https://" + turnstile},
	},
	GeeTest: {
		"https://static.geetest.com/v4/gt4.js", httpx.ThirdParty{Scripts: "https://*.geetest.com https://*.geevisit.com https://*.gsensebot.com"},
	},
	Tencent: {
		"https://turing.captcha.qcloud.com/TJCaptcha.js", httpx.ThirdParty{Scripts: "https://*.captcha.qcloud.com https://*.captcha.gtimg.com https://captcha.gtimg.com"},
	},
	// Anybody may own a bucket below aliyuncs.com, so no script comes from there.
	Aliyun: {
		"https://o.alicdn.com/captcha-frontend/aliyunCaptcha/AliyunCaptcha.js", httpx.ThirdParty{Scripts: "https://o.alicdn.com https://g.alicdn.com", Calls: "https://*.aliyuncs.com"},
	},
}

// runs reports whether the shop's own pages can run the verifier's widget.
func (s Settings) runs() bool {
	if s.VerifierKind.bound() {
		return true
	}
	u, err := url.Parse(s.VerifierURL)
	return err == nil && u.Hostname() == turnstile
}

// ThirdParty is what the shop's pages must be allowed to load for the verifier's widget.
func (s *Service) ThirdParty() httpx.ThirdParty {
	if s.verifier == nil || !s.cfg.runs() {
		return httpx.ThirdParty{}
	}
	return scripts[s.cfg.VerifierKind].ThirdParty
}

// widgetOf is the widget of a challenge.
func (s *Service) widgetOf(purpose, data string) *VerifierWidget {
	w := &VerifierWidget{
		Provider: s.cfg.VerifierKind, SiteKey: s.cfg.VerifierSiteKey, Prefix: s.cfg.VerifierPrefix, Action: purpose, Data: data,
	}
	if s.cfg.runs() {
		w.Script = scripts[s.cfg.VerifierKind].script
	}
	if w.Provider == Aliyun {
		w.Region = "cn"
		if strings.Contains(s.cfg.verifierURL(), "ap-southeast") {
			w.Region = "sgp"
		}
	}
	return w
}
