package dispute

import (
	"context"
	"fmt"
	"time"

	"stampede/order/dispute/internal/disputedb"
	"stampede/platform/base/fault"
	"stampede/platform/watch/alarm"
)

const (
	// answerWithin is how long a shopper waits at most for an answer; marketplaces ask
	// their merchants for the same.
	answerWithin = 48 * time.Hour
	// answersEvery is how often waiting disputes are counted, by their index.
	answersEvery = 10 * time.Minute
)

var alarmUnanswered = alarm.Define("dispute-unanswered", alarm.Warning,
	fault.T("Shoppers' disputes have waited for the shop's answer for two days.",
		"有顾客的售后申请已等待商家答复两天。"),
	fault.T("Answer or close them: `GET /api/v1/admin/disputes?status=open`.",
		"请回复或关闭：`GET /api/v1/admin/disputes?status=open`。"))

// Probes watch for disputes that the shop leaves unanswered.
func (s *Service) Probes() []alarm.Probe {
	return []alarm.Probe{{Alarm: alarmUnanswered, Every: answersEvery, Shared: true, Look: func(ctx context.Context) ([]alarm.Finding, error) {
		late, err := disputedb.New(s.deps.DB).Unanswered(ctx, answerWithin)
		if err != nil {
			return nil, fmt.Errorf("dispute: count unanswered: %w", err)
		}
		if late.Disputes == 0 {
			return nil, nil
		}
		return []alarm.Finding{{Subject: "disputes", Detail: fmt.Sprintf("%d wait, the first since %s.", late.Disputes, late.Since.UTC().Format(time.RFC3339))}}, nil
	}}}
}
