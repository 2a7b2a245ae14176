package sms

import (
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

// Use is what a code is for. The text names it, so that a user does not give the
// code to a stranger for something else.
type Use string

// The uses of codes.
const (
	ForLogin    Use = "login"
	ForRegister Use = "register"
	ForReset    Use = "reset"
	ForErase    Use = "erase"
	ForBind     Use = "bind" // adds a phone to an account
)

var codeUses = map[Use]fault.Text{
	ForLogin: {"logging in", "登录"}, ForRegister: {"registering", "注册"}, ForReset: {"resetting your password", "重置密码"},
	ForErase: {"deleting your account", "注销账号"}, ForBind: {"adding this phone to your account", "绑定手机号"},
}

// CodeLifetime is how long a code is valid. It is in the texts that providers approve.
const CodeLifetime = 5 * time.Minute

// codeTemplates are the messages that carry codes, one for each use: what differs in a
// template for codes may only be digits at most providers.
var codeTemplates = func() map[Use]Template {
	all := map[Use]Template{}
	for use, words := range codeUses {
		all[use] = Register(Template{
			Key: "code-" + string(use), Params: []string{"code"},
			Text: fault.T("{code} is your code for {use}. It is valid for {minutes} minutes. Do not share it with anyone, not even our staff.",
				"验证码 {code}，用于{use}，{minutes} 分钟内有效。请勿告诉任何人，包括本店员工。",
				"code", "{code}", "use", words, "minutes", int(CodeLifetime.Minutes())),
		})
	}
	return all
}()

// CodeMessage is the message that carries a code. signature is the shop's name.
func CodeMessage(signature string, use Use, code string, lang httpx.Language) Message {
	return codeTemplates[use].Message(signature, lang, code)
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
var noteTexts = map[Note]fault.Text{ //nolint:gosec // sentences, no credentials
	NoteDevice: {
		"A new device has logged in to your account. If it was not you, reset your password, which ends every login.",
		"您的账号刚刚在一台新设备上登录。如非本人操作，请立即重置密码，所有登录将随之退出。",
	},
	NotePassword: {
		"Your password was changed. If it was not you, reset it and contact our staff.",
		"您的账号密码已被修改。如非本人操作，请立即重置密码并联系客服。",
	},
	NoteAccess: {
		"A new way to log in was added to your account. If it was not you, contact our staff.",
		"您的账号新增了一种登录方式。如非本人操作，请立即联系客服。",
	},
	NoteRole: {
		"Your account's role was changed. If you have questions, contact the shop's admin.",
		"您的账号权限已变更。如有疑问，请联系店铺管理员。",
	},
	NoteFactor: {
		"The authenticator app of your account was changed. If it was not you, contact the shop's admin.",
		"您账号的动态验证码设置已变更。如非本人操作，请立即联系店铺管理员。",
	},
}

var noteTemplates = func() map[Note]Template {
	all := map[Note]Template{}
	for about, text := range noteTexts {
		all[about] = Register(Template{Key: "note-" + string(about), Text: text})
	}
	return all
}()

// NoteMessage is the message about a change to the account of its reader. signature is the
// shop's name.
func NoteMessage(signature string, about Note, lang httpx.Language) Message {
	return noteTemplates[about].Message(signature, lang)
}
