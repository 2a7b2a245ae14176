package coupon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/couponevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

const (
	// maxIssue is how many coupons one request issues: some tenths of a second for
	// Postgres, during which claims of the kind wait.
	maxIssue = 10_000
	// maxIssueBytes fits so many ids.
	maxIssueBytes = 512 << 10
	// keepsToTotal is the constraint that bounds a kind's coupons.
	keepsToTotal = "coupons_keep_to_the_total"
)

type issueInput struct {
	KindInput
	Body struct {
		UserIDs []string `json:"user_ids" nullable:"false" minItems:"1" maxItems:"10000" doc:"Whom to issue it to" example:"[\"1000042\"]"`
		Each    int16    `json:"each,omitempty" minimum:"1" maximum:"100" default:"1" doc:"How many coupons of the kind each of them has been issued afterwards, counting earlier ones and those that were used"`
		// Tokens can be minted for users who have no account here.
		WithoutAccount bool `json:"without_account,omitempty" doc:"Issue also to users without an account, whose tokens the shop mints; otherwise invalid refuses a number that no account has"`
	} `nameHint:"CouponRecipients"`
}

// couponIssue is the answer to an operator who issued coupons.
type couponIssue struct {
	Issued int64 `json:"issued" doc:"Coupons that this request issued"`
}

// issuedSoFar is what the audit log keeps of a kind before and after coupons of it were
// issued to a list of users.
type issuedSoFar struct {
	Issued int64 `json:"issued"`
	Users  int   `json:"users,omitempty"`
	Each   int16 `json:"each,omitempty"`
}

// issue issues coupons to a list of users: to all of them or to none.
func (s *Service) issue(ctx context.Context, in *issueInput) (*httpx.Output[couponIssue], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	if len(in.Body.UserIDs)*int(in.Body.Each) > maxIssue {
		return nil, fault.Plain(fault.Invalid,
			fault.T("One request issues {most} coupons at most; send several.",
				"一次最多发放 {most} 张，请分多次提交。", "most", maxIssue))
	}
	p := coupondb.IssueParams{KindID: id}
	for i, text := range in.Body.UserIDs {
		user, err := httpx.ParseID(text)
		if err != nil {
			return nil, fault.Plain(fault.Invalid,
				fault.T("user_ids[{at}] is no id of a user: those are positive decimal numbers.",
					"user_ids[{at}] 不是用户编号：编号为正整数。", "at", i)).Because(err)
		}
		for nth := range in.Body.Each {
			add(&p, user, nth+1)
		}
	}
	if s.accounts != nil && !in.Body.WithoutAccount {
		unknown, err := s.accounts.Unknown(ctx, p.UserIds)
		if err != nil {
			return nil, err
		}
		if len(unknown) > 0 { // such as a phone in place of the user's number
			at := slices.Index(p.UserIds, unknown[0]) / int(in.Body.Each)
			says := fault.T("No account has the number {user}; a guest has none. Search the users by phone, or send "+
				"without_account to issue to guests.",
				"没有编号为 {user} 的账号，访客没有账号。请在“用户”页按手机号查找编号；如需发给访客，请通过接口发放并设置 without_account。", "user", unknown[0])
			refused := fault.Plain(fault.Invalid, says).At(fmt.Sprintf("body.user_ids[%d]", at), says)
			refused.Flaws[0].Value = in.Body.UserIDs[at]
			return nil, refused
		}
	}
	return answered(ctx, s, func(tx pgx.Tx) (out couponIssue, err error) {
		q := coupondb.New(tx)
		k, now, err := lockKind(ctx, q, id)
		switch {
		case err != nil:
			return out, err
		case k.Status != active:
			return out, errNotActive
		case in.Body.Each > k.PerUser:
			return out, fault.Plain(fault.Invalid,
				fault.T("A user may be issued {most} coupons of this kind.", "该优惠券每人最多 {most} 张。", "most", k.PerUser))
		case k.ValidUntil != nil && !now.Before(*k.ValidUntil):
			return out, errNotActive.Saying(fault.T("Coupons of this kind have expired.", "该优惠券已过期。"))
		}
		p.ValidFrom, p.ValidUntil = validity(&k, now)
		if out.Issued, err = s.put(ctx, tx, p, couponevent.ByOperator); err != nil || out.Issued == 0 {
			return out, err
		}
		return out, audit.Record(ctx, tx, "coupon.issue", subject(id), audit.Change{
			Before: issuedSoFar{Issued: k.Issued}, After: issuedSoFar{k.Issued + out.Issued, len(in.Body.UserIDs), in.Body.Each},
		})
	})
}

type claimInput struct {
	Kind string `path:"kind" doc:"The kind of coupon" example:"12"`
	idempotency.Header
}

// claim issues one coupon to the shopper who asks for it.
func (s *Service) claim(ctx context.Context, in *claimInput) (*httpx.Output[couponView], error) {
	id, err := httpx.ParseID(in.Kind)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	leave, err := s.queue(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	user := auth.From(ctx).UserID
	return answered(ctx, s, func(tx pgx.Tx) (couponView, error) {
		return idempotency.Once(ctx, tx, in.Key, "coupon.claim", id, func() (couponView, error) {
			return s.claimIn(ctx, tx, id, user)
		})
	})
}

// queue waits briefly for a place among the claims under way.
func (s *Service) queue(ctx context.Context) (leave func(), err error) {
	// A shopper who has waited this long presses again; the place is for another.
	const patience = time.Second
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case s.claims <- struct{}{}:
		return func() { <-s.claims }, nil
	case <-waiting.Done():
		return nil, errBusy.Because(waiting.Err())
	}
}

func (s *Service) claimIn(ctx context.Context, tx pgx.Tx, id, user int64) (none couponView, err error) {
	q := coupondb.New(tx)
	k, now, err := lockKind(ctx, q, id)
	if err != nil {
		return none, err
	}
	switch {
	case k.Status == draft:
		return none, errNoKind
	case k.Status != active || k.ClaimFrom == nil || !now.Before(*k.ClaimUntil), k.ValidUntil != nil && !now.Before(*k.ValidUntil):
		return none, errNotClaimable
	case now.Before(*k.ClaimFrom):
		return none, errNotClaimable.After(k.ClaimFrom.Sub(now))
	}
	last, err := q.LastOfUser(ctx, coupondb.LastOfUserParams{Bucket: ids.Bucket(user), UserID: user, KindID: id})
	if err != nil {
		return none, fmt.Errorf("coupon: count a user's coupons: %w", err)
	}
	switch {
	case last >= k.PerUser:
		return none, errHasMost
	case k.Issued >= k.Total:
		return none, errGone
	}
	p := coupondb.IssueParams{KindID: id}
	p.ValidFrom, p.ValidUntil = validity(&k, now)
	add(&p, user, last+1)
	if _, err := s.put(ctx, tx, p, couponevent.ByClaim); err != nil {
		return none, err
	}
	return view(coupondb.CouponsOfUserRow{
		OrdersCoupon:     coupondb.OrdersCoupon{CouponNo: p.CouponNos[0], ValidFrom: p.ValidFrom, ValidUntil: p.ValidUntil},
		OrdersCouponKind: k, Status: available,
	}), nil
}

// validity is when a coupon that is issued now can be used.
func validity(k *coupondb.OrdersCouponKind, now time.Time) (from, until time.Time) {
	if k.ValidFrom != nil {
		return *k.ValidFrom, *k.ValidUntil
	}
	return now, now.Add(time.Duration(k.ValidDays) * 24 * time.Hour)
}

// add appends one coupon to an issue.
func add(p *coupondb.IssueParams, user int64, nth int16) {
	no := ids.NewFor(user)
	p.CouponNos, p.Buckets, p.UserIds, p.Nths = append(p.CouponNos, no), append(p.Buckets, no.Bucket()), append(p.UserIds, user), append(p.Nths, nth)
}

// put writes and publishes an issue, and returns how many coupons of it did not exist
// yet; the kind's row is locked.
func (s *Service) put(ctx context.Context, tx pgx.Tx, p coupondb.IssueParams, by string) (made int64, err error) {
	numbers, err := coupondb.New(tx).Issue(ctx, p)
	if pg.ViolatesCheck(err, keepsToTotal) {
		return 0, errGone.Because(err)
	}
	if err != nil {
		return 0, fmt.Errorf("coupon: issue %d: %w", len(p.CouponNos), err)
	}
	users := make(map[ids.ID]int64, len(p.CouponNos))
	for i, no := range p.CouponNos {
		users[no] = p.UserIds[i]
	}
	issued := make([]couponevent.Coupon, len(numbers))
	for i, no := range numbers {
		issued[i] = couponevent.Coupon{CouponNo: &no, KindID: p.KindID, UserID: users[no], By: by}
	}
	return int64(len(issued)), publish(ctx, tx, couponevent.SubjectIssued, issued)
}

// messageOf is how many coupons a message has at most: at some 200 bytes each it stays
// below outbox.MaxPayloadBytes.
const messageOf = 2000

// publish writes what became of coupons in the transaction of the change.
func publish(ctx context.Context, tx pgx.Tx, subject string, coupons []couponevent.Coupon) error {
	for some := range slices.Chunk(coupons, messageOf) {
		if _, err := outbox.Append(ctx, tx, subject, couponevent.Changed{Coupons: some}); err != nil {
			return err
		}
	}
	return nil
}

// kind reads a kind that it does not lock.
func kind(ctx context.Context, q *coupondb.Queries, id int64) (coupondb.OrdersCouponKind, error) {
	k, err := q.Kind(ctx, id)
	return k, notRead(id, err)
}

// lockKind locks a kind and returns it with the time.
func lockKind(ctx context.Context, q *coupondb.Queries, id int64) (coupondb.OrdersCouponKind, time.Time, error) {
	row, err := q.LockKind(ctx, id)
	return row.OrdersCouponKind, row.At, notRead(id, err)
}

// notRead is why a kind was not read; nil if it was.
func notRead(id int64, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return errNoKind
	default:
		return fmt.Errorf("coupon: read kind %d: %w", id, err)
	}
}
