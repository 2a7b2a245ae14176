package httpx

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"not-acceptable":         {"Accept application/json, or leave the header out.", "请接受 application/json，或不发送 Accept 请求头。"},
		"too-slow":               {"Send the request again over a better connection.", "请检查网络后重新发送请求。"},
		"unsupported-media-type": {"Send the body as JSON with Content-Type: application/json.", "请以 JSON 发送请求体，并设置 Content-Type: application/json。"},
		"method-not-allowed":     {"Use one of the methods that the header Allow lists.", "请改用 Allow 响应头列出的方法。"},
		"overloaded":             {"Repeat the request after the seconds in Retry-After.", "请按 Retry-After 给出的秒数等待后重试。"},
	})
}
