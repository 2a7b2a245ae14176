package risk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Hit is a user whom a rule hits.
type Hit struct {
	User  int64
	Count int64     // of what the rule counts
	Until time.Time // when the user falls below the threshold if nothing more happens
}

// worst orders hits by how bad they are and cuts them to so many.
func worst(hits []Hit, most int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.User, b.User)) })
	return hits[:min(len(hits), most)]
}

// hits returns whom a rule hits now: the same for a rule in force and for one
// that an operator tries. users narrows it to some; nil is everybody.
func (s *Service) hits(ctx context.Context, db querier, r *Rule, users []int64) ([]Hit, error) {
	switch r.Kind {
	case UnpaidHolds:
		return unpaidHits(ctx, db, r, users, s.cfg.MaxOffenders)
	case OpenUnpaid:
		return s.openHits(ctx, r)
	default:
		return s.refusalHits(ctx, r)
	}
}

// unpaidHits counts unpaid closings. The user stays hit until the one that makes
// the threshold full leaves the window.
func unpaidHits(ctx context.Context, db querier, r *Rule, users []int64, most int) ([]Hit, error) {
	rows, err := db.Query(ctx, `
		SELECT user_id, count(*), (array_agg(closed_at ORDER BY closed_at DESC))[$1] + $2::interval
		FROM risk.holds
		WHERE closed_at > clock_timestamp() - $2::interval AND ($3::bigint[] IS NULL OR user_id = ANY ($3))
		GROUP BY user_id HAVING count(*) >= $1
		ORDER BY 2 DESC, 1 LIMIT $4`, r.Threshold, r.Window, users, most)
	if err != nil {
		return nil, fmt.Errorf("count unpaid holds: %w", err)
	}
	hits, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Hit])
	if err != nil {
		return nil, fmt.Errorf("count unpaid holds: %w", err)
	}
	return hits, nil
}

// never is the end of a mark that somebody watches over and takes away.
var never = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// openHits asks the order module who has many orders to pay now.
func (s *Service) openHits(ctx context.Context, r *Rule) ([]Hit, error) {
	if s.deps.Orders == nil {
		return nil, nil
	}
	open, err := s.deps.Orders.OpenUnpaid(ctx, int(r.Threshold), s.cfg.MaxOffenders)
	if err != nil {
		return nil, fmt.Errorf("ask for open orders: %w", err)
	}
	hits := make([]Hit, 0, len(open))
	for user, n := range open {
		hits = append(hits, Hit{User: user, Count: n, Until: never})
	}
	return worst(hits, s.cfg.MaxOffenders), nil
}

// putMarks notes hits of a rule, and reports whether that changed anything. An
// end that moves by seconds is no change: every instance would read all marks
// again for it.
func putMarks(ctx context.Context, tx pgx.Tx, rule int64, hits []Hit) (bool, error) {
	users, counts, until := columns(hits)
	tag, err := tx.Exec(ctx, `
		INSERT INTO risk.marks AS m (rule_id, user_id, count, until)
		SELECT r.id, h.usr, h.n, h.until FROM risk.rules r, unnest($2::bigint[], $3::bigint[], $4::timestamptz[]) AS h (usr, n, until)
		WHERE r.id = $1 -- the rule may have been removed meanwhile
		ORDER BY h.usr
		ON CONFLICT (rule_id, user_id) DO UPDATE SET count = excluded.count, until = excluded.until
			WHERE m.count <> excluded.count OR m.until NOT BETWEEN excluded.until - interval '10 s' AND excluded.until + interval '10 s'`,
		rule, users, counts, until)
	if err != nil {
		return false, fmt.Errorf("note marks: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// setMarks makes hits all that a rule has.
func setMarks(ctx context.Context, tx pgx.Tx, rule int64, hits []Hit) (bool, error) {
	users, _, _ := columns(hits)
	tag, err := tx.Exec(ctx, `DELETE FROM risk.marks WHERE rule_id = $1 AND user_id <> ALL ($2::bigint[])`, rule, users)
	if err != nil {
		return false, fmt.Errorf("remove marks: %w", err)
	}
	put, err := putMarks(ctx, tx, rule, hits)
	return put || tag.RowsAffected() > 0, err
}

func columns(hits []Hit) (users, counts []int64, until []time.Time) {
	// Never nil: a NULL array would compare as unknown.
	users, counts, until = make([]int64, len(hits)), make([]int64, len(hits)), make([]time.Time, len(hits))
	for i, h := range hits {
		users[i], counts[i], until[i] = h.User, h.Count, h.Until
	}
	return users, counts, until
}

// remark counts a rule anew for everybody.
func (s *Service) remark(ctx context.Context, r *Rule) error {
	hits, err := s.hits(ctx, s.deps.DB, r, nil)
	if err != nil {
		return err
	}
	return s.current.Change(ctx, func(tx pgx.Tx) (bool, error) { return setMarks(ctx, tx, r.ID, hits) })
}
