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
	titles map[string]Titles
}{titles: plainCodes()}

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
