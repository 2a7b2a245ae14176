package alarm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/watch/alarm/channel"
)

// speaker puts incidents into words, in one language.
type speaker struct {
	lang httpx.Language
	base string // URL of this server
	shop string // what an SMS begins with
}

const (
	// listed is how many incidents one message names.
	listed = 10
	// subjectRunes keep an SMS below twice 67 characters, with the shop's name and the link.
	subjectRunes = 30
)

var levels = map[Severity]fault.Text{Critical: {"Critical", "严重"}, Warning: {"Warning", "注意"}, Info: {"Info", "通知"}}

// headline says in one line what happened to an incident.
func (s speaker) headline(c claimed) string {
	level := levels[c.Severity]
	switch c.said {
	case saidOpen:
		level = fault.T("Over after {time}", "已恢复，持续 {time}", "time", c.over.Sub(c.OpenedAt).Round(time.Second))
	case saidOver:
		level = fault.T("Back: {level}", "再次发生：{level}", "level", level)
	}
	return fault.T("[{level}] {code}: {subject}", "【{level}】{code}：{subject}", "level", level, "code", c.Code, "subject", c.Subject)[s.lang]
}

// story is what is known of an incident, and what to do.
func (s speaker) story(c claimed) string {
	var lines []string
	if d := defined[c.Code]; d != nil {
		lines = append(lines, d.Meaning[s.lang])
	}
	if c.Detail != "" {
		lines = append(lines, c.Detail)
	}
	switch {
	case c.said == saidOpen:
		return c.Detail // the rest was said before
	case c.over != nil:
		lines = append(lines, fault.Text{"It is over.", "现已恢复。"}[s.lang])
	}
	return strings.Join(append(lines, fault.T("Next: {action}", "处理方法：{action}", "action", c.Next())[s.lang]), "\n")
}

// smsText is an alarm to a phone for providers that approve texts.
var smsText = sms.Register(sms.Template{
	Key: "alarm", Params: []string{"code", "subject", "count"}, Optional: true,
	Text: fault.Text{"Alarm {code} {subject}, {count} in all.", "告警：{code} {subject}，共 {count} 条。"},
})

// message is one message about all of list, whose first is the most urgent.
func (s speaker) message(list []claimed) channel.Message {
	first := list[0]
	sum := sha256.New()
	for _, c := range list {
		_, _ = fmt.Fprintf(sum, "%d-%d-%s ", c.ID, c.Incident, c.said)
	}
	m := channel.Message{
		ID: "alarm-" + hex.EncodeToString(sum.Sum(nil)[:12]), Title: s.headline(first), Text: s.story(first),
		Link: s.base + "/admin/alarms?open=true", Urgent: first.Severity == Critical && first.said != saidOpen,
	}
	if len(list) == 1 {
		m.Link = fmt.Sprintf("%s/admin/alarms?code=%s#alarm-%d", s.base, first.Code, first.ID)
	} else {
		m.Title = fault.T("{n} alarms, first: {first}", "{n} 条告警，首条：{first}", "n", len(list), "first", m.Title)[s.lang]
		for _, c := range list[1:min(len(list), listed)] {
			m.Text += "\n" + s.headline(c)
		}
		if more := len(list) - listed; more > 0 {
			m.Text += "\n" + fault.T("and {n} more", "还有 {n} 条", "n", more)[s.lang]
		}
	}
	subject := []rune(first.Subject)
	subject = subject[:min(len(subject), subjectRunes)]
	m.Template = smsText.Key
	m.Params = []sms.Param{{Name: "code", Value: string(first.Code)}, {Name: "subject", Value: string(subject)}, {Name: "count", Value: fmt.Sprint(len(list))}}
	m.Short = fault.T("[{shop}] {level}: {code} {subject}, {n} in all. {link}", "【{shop}】{level}：{code} {subject}，共 {n} 条。{link}",
		"shop", s.shop, "level", s.level(first), "code", first.Code, "subject", string(subject), "n", len(list), "link", s.base+"/admin/alarms")[s.lang]
	return m
}

// level is a headline's first words.
func (s speaker) level(c claimed) fault.Text {
	if c.said == saidOpen {
		return fault.Text{"Alarm over", "告警恢复"}
	}
	return fault.T("{level} alarm", "{level}告警", "level", levels[c.Severity])
}
