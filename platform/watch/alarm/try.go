package alarm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm/channel"
)

// Testing is what a test message is about. It is sent and recorded nowhere.
var Testing = Define("alarm-test", Warning,
	fault.T("An operator tests where alarms go (`stampede alarm test`, or the button beside the list of alarms). It is sent at any hour and is in no list.",
		"有操作员在测试告警渠道（`stampede alarm test` 或告警列表旁的按钮）。测试消息不受时段限制，也不进入列表。"),
	fault.T("Nothing is to be done.", "无需处理。"))

// Tested is what a test of one address gave.
type Tested struct {
	Address string `json:"address" doc:"The address's name, which contains no secret" example:"wecom-3f2a91cc"`
	OK      bool   `json:"ok" doc:"Whether the provider accepted the message"`
	Answer  string `json:"answer" doc:"The provider's answer, or why there is none" example:"0 \"ok\""`
	Next    string `json:"next,omitempty" doc:"What to do, if it did not"`
}

// testing is the message's incident. Its number makes each test another message.
func testing() []claimed {
	now := time.Now()
	return []claimed{{Alarm: Alarm{
		Code: Testing.Code, Severity: Warning, Subject: "test", NextAction: Testing.Action[httpx.English], Incident: int(now.UnixMilli()),
		FirstSeen: now, OpenedAt: now, LastSeen: now, Count: 1,
	}}}
}

// Test sends a message to each address, to all at once, and returns the results in the
// order of the settings.
func (n *Notifier) Test(ctx context.Context, lang httpx.Language) []Tested {
	found := make([]Tested, len(n.tellers))
	var all sync.WaitGroup
	for i, t := range n.tellers {
		all.Go(func() {
			answer, err := t.send(ctx, testing())
			found[i] = tested(t.name, answer, err, lang)
		})
	}
	all.Wait()
	return found
}

func tested(name, answer string, err error, lang httpx.Language) Tested {
	if err == nil {
		return Tested{Address: name, OK: true, Answer: answer}
	}
	if answer == "" {
		answer = err.Error()
	}
	return Tested{Address: name, Answer: answer, Next: channel.Next(err)[lang]}
}

// TestAddress sends a message from this process to a robot's address that is in no
// setting yet.
func TestAddress(ctx context.Context, raw, baseURL, language string) (Tested, error) {
	a, err := channel.Parse(raw)
	if err != nil {
		return Tested{}, err
	}
	c, err := channel.Open(a, channel.Deps{})
	if err != nil {
		return Tested{}, fmt.Errorf("%w; the server sends to this address: put it into --alarm-to, start the server again and test without --to", err)
	}
	defer c.Close()
	say := speaker{lang: httpx.LanguageOf(language), base: baseURL}
	answer, err := c.Send(ctx, say.message(testing()))
	return tested(a.Name, answer, err, httpx.English), nil
}
