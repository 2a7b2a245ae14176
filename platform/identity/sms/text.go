package sms

import (
	"fmt"
	"time"
)

// Language is a language of the texts.
type Language string

// The languages.
const (
	Chinese Language = "zh"
	English Language = "en"
)

// Use is what a code is for. The text names it, so that a user does not give the
// code to a stranger for something else.
type Use string

// codeUses names the uses in each language; the empty Use names any other.
var codeUses = map[Language]map[Use]string{
	Chinese: {"login": "登录", "register": "注册", "reset": "重置密码", "erase": "注销账号", "bind": "绑定手机号", "": "验证"},
	English: {"login": "logging in", "register": "registering", "reset": "resetting your password", "erase": "deleting your account", "bind": "adding this phone to your account", "": "verification"},
}

// codeTexts are the texts: signature, code, use, minutes.
var codeTexts = map[Language]string{
	Chinese: "【%s】验证码 %s，用于%s，%d 分钟内有效。请勿告诉任何人，包括本店员工。",
	English: "[%s] %s is your code for %s. It is valid for %d minutes. Do not share it with anyone, not even our staff.",
}

// CodeText is the message that carries a code. signature is the shop's name.
func CodeText(lang Language, signature string, use Use, code string, valid time.Duration) string {
	format, ok := codeTexts[lang]
	if !ok {
		lang, format = English, codeTexts[English]
	}
	word, ok := codeUses[lang][use]
	if !ok {
		word = codeUses[lang][""]
	}
	return fmt.Sprintf(format, signature, code, word, int(valid.Minutes()))
}
