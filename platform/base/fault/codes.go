package fault

import (
	"fmt"
	"maps"
	"sync"
)

var codes = struct {
	sync.Mutex
	declared map[string]*Error
}{declared: map[string]*Error{}}

// Codes returns the error that declares each code of the program.
func Codes() map[string]*Error {
	codes.Lock()
	defer codes.Unlock()
	return maps.Clone(codes.declared)
}

// declare records a code. One without words would reach a shopper as "sold-out", and one that
// is declared twice could say two things, so both are programming errors.
func declare(e *Error) *Error {
	codes.Lock()
	defer codes.Unlock()
	if codes.declared[e.Code] != nil {
		panic(fmt.Sprintf("fault: code %q is declared twice", e.Code))
	}
	for lang := range e.Title {
		if e.Title[lang] == "" || e.Next[lang] == "" || e.Detail[lang] == "" && e.Detail != (Text{}) {
			panic(fmt.Sprintf("fault: code %q lacks words", e.Code))
		}
	}
	codes.declared[e.Code] = e
	return e
}

// The codes of the kinds that are specific enough to have one.
var (
	errInternal = New(Internal, "internal", T("Something failed on our side", "服务出错了，请稍后再试"), Text{},
		T("Repeat the request; if it fails again, tell the operator the request id.", "请重试；若仍失败，请将请求编号告知运营人员。"))
	ErrBadRequest = New(BadRequest, "bad-request", T("The request could not be read", "请求无法解析"), Text{},
		T("Correct what detail names and send the request again.", "请修正请求后重新发送。"))
	ErrForbidden = New(Forbidden, "forbidden", T("Not allowed", "没有权限"), Text{},
		T("Ask an admin for the role, or an operator to do it.", "请联系管理员授予相应权限，或由有权限的同事操作。"))
	ErrNotFound = New(NotFound, "not-found", T("Not found", "未找到"), Text{},
		T("Check the number or id; the lists show what there is.", "请核对编号，可在列表中查找。"))
	ErrTooLarge = New(TooLarge, "too-large", T("The request is too large", "请求内容过大"), Text{},
		T("Send less in one request.", "请减少单次请求的内容后重试。"))
	ErrInvalid = New(Invalid, "invalid", T("The request is not valid", "请求内容有误"), Text{},
		T("Correct what the message names and send it again.", "请按提示修改后重新提交。"))
	ErrUnavailable = New(Unavailable, "unavailable", T("Not available right now", "服务暂不可用，请稍后再试"), Text{},
		T("Try again in a moment. If it persists, operators check the open alarms.", "请稍后重试；若持续出现，运营人员请查看未处理的告警。"))
)

var plain = map[Kind]*Error{
	Internal: errInternal, BadRequest: ErrBadRequest, Forbidden: ErrForbidden, NotFound: ErrNotFound, TooLarge: ErrTooLarge,
	Invalid: ErrInvalid, Unavailable: ErrUnavailable,
}

// Errors of more than one module.
var (
	// ErrInternal is the answer to a caller for an error that is not an Error.
	ErrInternal = Plain(Internal, T("Something failed on our side. Try again; if it stays, tell the operator the request id.",
		"服务出错了，请重试；若仍失败，请将请求编号告知运营人员。"))
	// ErrStale refuses an edit that is based on an outdated version: its sender has not seen
	// the state that the edit would overwrite.
	ErrStale = New(Conflict, "stale-version", T("This has changed since you read it", "内容已被他人修改，请刷新后重试"),
		T("This has changed since you read it; read it again and repeat your edit.", "内容在您查看后已被修改，请刷新后重新修改。"),
		T("Read it again and repeat your edit.", "请刷新查看最新内容后重新修改。"))
	// ErrTransition refuses what the status of a thing does not allow.
	ErrTransition = New(Conflict, "forbidden-transition", T("Not possible in this state", "当前状态不允许此操作"),
		T("This is not possible now.", "当前不能执行此操作。"),
		T("Read it again: its status says what is possible now.", "请刷新查看当前状态，再选择可执行的操作。"))
)
