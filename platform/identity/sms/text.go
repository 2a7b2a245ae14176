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

// codeUses names the uses in each language.
var codeUses = map[Language]map[Use]string{
	Chinese: {"login": "登录", "register": "注册", "reset": "重置密码", "erase": "注销账号", "bind": "绑定手机号"},
	English: {"login": "logging in", "register": "registering", "reset": "resetting your password", "erase": "deleting your account", "bind": "adding this phone to your account"},
}

// CodeText is the message that carries a code. signature is the shop's name.
func CodeText(lang Language, signature string, use Use, code string, valid time.Duration) string {
	format := "[%s] %s is your code for %s. It is valid for %d minutes. Do not share it with anyone, not even our staff."
	if lang == Chinese {
		format = "【%s】验证码 %s，用于%s，%d 分钟内有效。请勿告诉任何人，包括本店员工。"
	}
	return fmt.Sprintf(format, signature, code, codeUses[lang][use], int(valid.Minutes()))
}

// Note is what a message to a user is about.
type Note string

// The notes.
const (
	NoteDevice   Note = "device"   // a login on a new device
	NotePassword Note = "password" // the password was set
	NoteAccess   Note = "access"   // a way to log in was added
	NoteRole     Note = "role"
	NoteFactor   Note = "factor" // the second factor was added or removed
)

// noteTexts are the texts after the signature.
var noteTexts = map[Language]map[Note]string{ //nolint:gosec // sentences, no credentials
	Chinese: { //nolint:gosec // as above
		NoteDevice:   "您的账号刚刚在一台新设备上登录。如非本人操作，请立即重置密码，所有登录将随之退出。",
		NotePassword: "您的账号密码已被修改。如非本人操作，请立即重置密码并联系客服。",
		NoteAccess:   "您的账号新增了一种登录方式。如非本人操作，请立即联系客服。",
		NoteRole:     "您的账号权限已变更。如有疑问，请联系店铺管理员。",
		NoteFactor:   "您账号的动态验证码设置已变更。如非本人操作，请立即联系店铺管理员。",
	},
	English: {
		NoteDevice:   "A new device has logged in to your account. If it was not you, reset your password, which ends every login.",
		NotePassword: "Your password was changed. If it was not you, reset it and contact our staff.",
		NoteAccess:   "A new way to log in was added to your account. If it was not you, contact our staff.",
		NoteRole:     "Your account's role was changed. If you have questions, contact the shop's admin.",
		NoteFactor:   "The authenticator app of your account was changed. If it was not you, contact the shop's admin.",
	},
}

// NoteText is the message about a change to the account of its reader. signature is the
// shop's name.
func NoteText(lang Language, signature string, about Note) string {
	if lang == Chinese {
		return "【" + signature + "】" + noteTexts[Chinese][about]
	}
	return "[" + signature + "] " + noteTexts[English][about]
}
