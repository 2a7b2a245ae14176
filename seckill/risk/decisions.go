package risk

import (
	"context"
	"encoding/json"
	"time"

	"stampede/platform/ids"
	"stampede/seckill/rush"
)

// What came of a decision that restricted somebody.
const (
	resultShortWindow = "short-window"
	resultLater       = "later"
	resultUnlucky     = "refused-by-chance"
	resultRefused     = "refused"
)

const (
	// maxQueued bounds the decisions that wait to be stored, some 300 bytes each:
	// seconds of a crowd of offenders, all of whom the rate limit slows down.
	maxQueued = 8192
	// maxStored is what one statement takes.
	maxStored = 500
	// storeTimeout bounds one statement, which is tried twice: a stop waits for it.
	storeTimeout = 2 * time.Second
)

// decision is a row of risk.decisions.
type decision struct {
	at             time.Time
	user, item     int64
	activity, rule int64
	no             ids.ID
	note, inputs   []byte // JSON
	result         string
}

// decide puts a decision in line to be stored. It never waits: a shopper's answer
// does not depend on it.
func (s *Service) decide(a *rush.Applicant, rule int64, note ruleNote, in inputs, result string) {
	s.metrics.decisions.WithLabelValues(result).Inc()
	d := decision{at: a.Now, user: a.User, item: a.Item.ID, activity: a.Item.ActivityID, rule: rule, no: a.OrderNo, result: result}
	var err error
	if d.note, err = json.Marshal(note); err == nil {
		d.inputs, err = json.Marshal(in)
	}
	if err != nil {
		s.metrics.lost.Inc() // numbers and our own words always encode
		return
	}
	select {
	case s.queue <- d:
	default:
		s.metrics.lost.Inc()
	}
}

// storeDecisions writes what is in line, one statement for what has gathered
// while the last was under way, until ctx ends and the line is empty.
func (s *Service) storeDecisions(ctx context.Context) error {
	// What is in hand when ctx ends is stored all the same. Nothing comes behind it:
	// by then nobody is served any more.
	storing := context.WithoutCancel(ctx)
	for {
		select {
		case d := <-s.queue:
			if !s.store(storing, s.gather(d)) && ctx.Err() != nil {
				return nil //nolint:nilerr // ctx's end is no failure; Postgres is away, and the process wants to end
			}
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return nil
		case d := <-s.queue:
			s.store(storing, s.gather(d))
		}
	}
}

func (s *Service) gather(first decision) []decision {
	batch := []decision{first}
	for len(batch) < maxStored {
		select {
		case d := <-s.queue:
			batch = append(batch, d)
		default:
			return batch
		}
	}
	return batch
}

// store writes a batch, a second time if need be; what Postgres took neither time
// is counted as lost.
func (s *Service) store(ctx context.Context, batch []decision) bool {
	n := len(batch)
	at, nos := make([]time.Time, n), make([]ids.ID, n)
	wide := make([]int64, 4*n)
	users, items, activities, rules := wide[:n], wide[n:2*n], wide[2*n:3*n], wide[3*n:]
	text := make([]string, 3*n)
	notes, seen, results := text[:n], text[n:2*n], text[2*n:]
	for i, d := range batch {
		at[i], nos[i], users[i], items[i], activities[i], rules[i] = d.at, d.no, d.user, d.item, d.activity, d.rule
		notes[i], seen[i], results[i] = string(d.note), string(d.inputs), d.result
	}
	var err error
	for range 2 {
		if err = s.insertDecisions(ctx, at, users, items, activities, nos, rules, notes, seen, results); err == nil {
			return true
		}
	}
	s.metrics.lost.Add(float64(n))
	s.deps.Log.WarnContext(ctx, "decisions not stored", "decisions", n, "error", err)
	return false
}

func (s *Service) insertDecisions(ctx context.Context, columns ...any) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	_, err := s.deps.DB.Exec(ctx, `
		INSERT INTO risk.decisions (at, user_id, item_id, activity_id, order_no, rule_id, rule, inputs, result)
		SELECT d.at, d.usr, d.item, d.activity, d.no, d.rule, d.note::jsonb, d.inputs::jsonb, d.result
		FROM unnest($1::timestamptz[], $2::bigint[], $3::bigint[], $4::bigint[], $5::uuid[], $6::bigint[], $7::text[], $8::text[], $9::text[])
			AS d (at, usr, item, activity, no, rule, note, inputs, result)`, columns...)
	return err
}
