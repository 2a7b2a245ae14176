package fault

import (
	"fmt"
	"maps"
	"sync"
)

// Titles are the short texts that a person reads for a code: English, then Chinese.
type Titles [2]string

// plain contains the default codes of the kinds that are specific enough to have one.
var plain = map[Kind]struct {
	code   string
	titles Titles
}{
	Internal:    {"internal", Titles{"Something failed on our side", "服务出错了，请稍后再试"}},
	BadRequest:  {"bad-request", Titles{"The request could not be read", "请求无法解析"}},
	Forbidden:   {"forbidden", Titles{"Not allowed", "没有权限"}},
	NotFound:    {"not-found", Titles{"Not found", "未找到"}},
	TooLarge:    {"too-large", Titles{"The request is too large", "请求内容过大"}},
	Invalid:     {"invalid", Titles{"The request is not valid", "请求内容有误"}},
	Unavailable: {"unavailable", Titles{"Not available right now", "服务暂不可用，请稍后再试"}},
}

var codes = struct {
	sync.Mutex
	titles  map[string]Titles
	instead map[string]Titles
}{titles: plainCodes(), instead: map[string]Titles{
	"internal":    {"Repeat the request; if it fails again, tell the operator the request id.", "请重试；若仍失败，请将请求编号告知运营人员。"},
	"bad-request": {"Correct what detail names and send the request again.", "请修正请求后重新发送。"},
	"forbidden":   {"Ask an admin for the role, or an operator to do it.", "请联系管理员授予相应权限，或由有权限的同事操作。"},
	"not-found":   {"Check the number or id; the lists show what there is.", "请核对编号，可在列表中查找。"},
	"too-large":   {"Send less in one request.", "请减少单次请求的内容后重试。"},
	"invalid":     {"Correct what the message names and send it again.", "请按提示修改后重新提交。"},
	"unavailable": {"Try again in a moment. If it persists, operators check the open alarms.", "请稍后重试；若持续出现，运营人员请查看未处理的告警。"},
}}

// Instead registers what the caller of each code does instead, in a package's init. It
// panics if two packages say different things about a code, or one says nothing.
func Instead(texts map[string]Titles) {
	codes.Lock()
	defer codes.Unlock()
	for code, t := range texts {
		if before, known := codes.instead[code]; known && before != t || t[0] == "" || t[1] == "" {
			panic(fmt.Sprintf("fault: what to do instead of code %q is %q and %q", code, before, t))
		}
		codes.instead[code] = t
	}
}

// NextOf returns what the caller of a code does instead; empty if it is not registered.
func NextOf(code string) Titles {
	codes.Lock()
	defer codes.Unlock()
	return codes.instead[code]
}

func plainCodes() map[string]Titles {
	all := make(map[string]Titles, len(plain))
	for _, p := range plain {
		all[p.code] = p.titles
	}
	return all
}

// Codes returns every code of the program with its titles.
func Codes() map[string]Titles {
	codes.Lock()
	defer codes.Unlock()
	return maps.Clone(codes.titles)
}

// register records a code. A code without titles would reach a shopper as
// "sold-out", and a code with two pairs of titles would mean two things, so
// both are programming errors.
func register(code string, titles Titles) {
	codes.Lock()
	defer codes.Unlock()
	switch before, known := codes.titles[code]; {
	case titles[0] == "" || titles[1] == "":
		panic(fmt.Sprintf("fault: code %q lacks a title", code))
	case known && before != titles:
		panic(fmt.Sprintf("fault: code %q has the titles %q and %q", code, before, titles))
	}
	codes.titles[code] = titles
}
