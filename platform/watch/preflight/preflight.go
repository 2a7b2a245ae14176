// Package preflight answers, before a sale opens, whether the plan and the servers
// are ready for it. Each module exports checks as it exports those of the books; a
// check says in both languages what it looks at and what to do when it finds
// something. Nothing here changes anything.
package preflight

import (
	"context"
	"slices"
	"sync"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
)

// Level says whether the sale may open as it is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // it can open; someone should look first
	Stop    Level = "stop"    // it would fail
)

// Need is what a plan asks of the servers.
type Need struct {
	Units    int64 // on sale at one opening, without the unlimited ones
	Shoppers int   // expected at the opening; 0 is unknown
}

// Finding is what a check saw of one subject.
type Finding struct {
	Level   Level
	Subject string     // "item 12", "Redis"; "" where the check's title says it
	Found   fault.Text // one sentence with the figures
}

// Check looks at one thing.
type Check struct {
	Code   string     // stable, part of the API
	Titles fault.Text // what it looks at
	Next   fault.Text // what to do about a finding above OK
	// Look returns its findings; none is one line of level OK. It only reads, and may
	// run beside others and itself. An error is a line of level warning: what cannot
	// be checked is not known to be ready.
	Look func(ctx context.Context, need Need) ([]Finding, error)
}

// Line is one line of the answer.
type Line struct {
	Code    string `json:"code" example:"provider"`
	Level   Level  `json:"level" enum:"ok,warning,stop"`
	Subject string `json:"subject,omitempty" example:"item 12"`
	Title   string `json:"title" example:"Shoppers can pay"`
	TitleZH string `json:"title_zh" example:"支付渠道可用"`
	Found   string `json:"found,omitempty" doc:"What was seen, with figures" example:"3 of 3 payment methods answer."`
	FoundZH string `json:"found_zh,omitempty" doc:"The same in Chinese" example:"3 个支付方式均可用。"`
	Next    string `json:"next,omitempty" doc:"What to do; left out when the level is ok" example:"Enter another payment method."`
	NextZH  string `json:"next_zh,omitempty" doc:"The same in Chinese" example:"请添加其他支付方式。"`
}

// patience is how long one check may take. A part that answers more slowly is not
// ready for a rush.
const patience = 3 * time.Second

// Run runs the checks side by side, each within 3 s, and returns their lines: stops
// first, then warnings, otherwise in the order of the checks.
func Run(ctx context.Context, need Need, checks []Check) []Line {
	found := make([][]Line, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { found[i] = c.lines(ctx, need) })
	}
	all.Wait()
	lines := slices.Concat(found...)
	rank := map[Level]int{Stop: 0, Warning: 1, OK: 2}
	slices.SortStableFunc(lines, func(a, b Line) int { return rank[a.Level] - rank[b.Level] })
	return lines
}

// lines runs one check. It does not wait for a Look that ignores its context.
func (c Check) lines(ctx context.Context, need Need) []Line {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var looked, found []Finding
	var err error
	switch {
	case app.Await(ctx, func() { looked, err = c.Look(ctx, need) }) != nil: // Look may still write the two
		found = []Finding{{Level: Warning, Found: fault.T("Not checked: no answer within {most}.", "未能检查：{most} 内没有响应。", "most", patience)}}
	case err != nil:
		found = slices.Concat(looked, []Finding{{Level: Warning, Found: fault.T("Not checked: {why}.", "未能检查：{why}。", "why", err)}})
	default:
		found = looked
	}
	if len(found) == 0 {
		found = []Finding{{Level: OK}}
	}
	lines := make([]Line, len(found))
	for i, f := range found {
		lines[i] = Line{Code: c.Code, Level: f.Level, Subject: f.Subject, Title: c.Titles[0], TitleZH: c.Titles[1], Found: f.Found[0], FoundZH: f.Found[1]}
		if f.Level != OK {
			lines[i].Next, lines[i].NextZH = c.Next[0], c.Next[1]
		}
	}
	return lines
}
