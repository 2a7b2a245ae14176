package qrlogin

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"qr-expired":      {"Refresh the QR code and scan the new one.", "请刷新二维码后重新扫描。"},
		"qr-taken":        {"Refresh the QR code and scan the new one.", "请刷新二维码后重新扫描。"},
		"qr-not-scanned":  {"Scan the QR code first.", "请先扫描二维码。"},
		"qr-decided":      {"Refresh the QR code to begin another login.", "请刷新二维码重新发起登录。"},
		"qr-wrong-number": {"Refresh the QR code, and compare the numbers before you confirm.", "请刷新二维码，确认前核对两端显示的数字。"},
	})
}
