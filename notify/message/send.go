package message

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/notify/message/internal/messagedb"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
)

const (
	// claimAtMost is how many messages a batch has: a statement for a hundred costs what one for ten does.
	claimAtMost = 100
	// sideBySide bounds the calls at a time: 16 to a gateway that takes 80 ms are 200 a second.
	sideBySide = 16
	// claimFor is how long a claim lasts. No message of a batch begins in its last third, and no call goes on in its last
	// twelfth, so that no other process sends the same at the same time.
	claimFor = time.Minute
	// settleFor bounds the note of what was sent, which is made even if the process is being stopped.
	settleFor = 5 * time.Second
	// settleAgain is the pause after a note that failed.
	settleAgain = 500 * time.Millisecond
	// idleEvery is how often the table is looked at without a pulse: two reads of an index.
	idleEvery = 500 * time.Millisecond
	// reasonBytes bounds a stored error.
	reasonBytes = 200
)

// backoff is when a message is tried again; the last pause repeats until it expires.
var backoff = []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// What became of a message.
const (
	waiting = "waiting"
	sent    = "sent"
	dead    = "dead"    // it could not be sent; operators see why
	dropped = "dropped" // it is not to be sent
)

// Why a message is dropped.
const (
	reasonUnsubscribed = "unsubscribed"
	reasonQuiet        = "quiet hours"
	reasonBudget       = "budget used up"
	reasonNoAddress    = "no address"
	reasonOff          = "switched off"
	reasonMoved        = "the session was moved or ended"
	reasonOvertaken    = "the order was paid or closed"
	reasonExpired      = "too late"
	reasonUnclear      = "it may have been sent"
)

// lane is a sort of messages that has a loop of its own: a channel that hangs holds a batch for as long as its claim, and
// neither what is about an order waits that long behind offers, nor an SMS behind e-mails.
type lane struct {
	offers bool
	mail   bool // e-mail is all that is left for them
}

// due is what wakes the lane's loop.
func (l lane) due() string {
	return fmt.Sprintf(`EXISTS (SELECT FROM notify.messages WHERE state = 'waiting' AND by_mail = %t AND offer = %t AND next_try <= statement_timestamp())`, l.mail, l.offers)
}

// sendLoop sends what is due of one lane. There is a backlog while the last batch about orders was full.
func (s *Service) sendLoop(ctx context.Context, l lane, backlog *atomic.Bool) error {
	name := fmt.Sprintf("messages (offers %t, by mail %t)", l.offers, l.mail)
	return app.Loop{
		Every: s.idle, Retry: leaderLife / 3, Due: s.deps.Pulse.Due(name, l.due()), Log: s.deps.Log, Failed: "messages not sent, trying again",
		Do: func(ctx context.Context) error {
			for full := true; full && ctx.Err() == nil; { // what trickles in waits for the next round: a batch of one costs as much
				if l.offers && backlog.Load() {
					return nil // the others have the rate
				}
				n, err := s.batch(ctx, l)
				if full = n == claimAtMost; !l.offers {
					backlog.Store(full)
				}
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		},
	}.Run(ctx)
}

// outcome is what becomes of a claimed message.
type outcome struct {
	state, reason, channel, recipient string
	parts                             int
	next                              time.Time
	tried                             int32 // attempts that this was
	byMail                            bool  // e-mail is all that is left
	othersAway                        bool  // and because another channel was away
}

// batch sends claimed messages side by side, and returns how many there were.
func (s *Service) batch(ctx context.Context, l lane) (int, error) {
	q := messagedb.New(s.deps.DB)
	ends := time.Now().Add(s.claim) // of the claim, at the earliest: Postgres counts from later on
	rows, err := q.Claim(ctx, messagedb.ClaimParams{ClaimedFor: s.claim, ByMail: l.mail, Offer: l.offers, Most: claimAtMost})
	if err != nil || len(rows) == 0 {
		return 0, failed("claim", err)
	}
	b, err := s.prepareBatch(ctx, rows, l)
	if err != nil {
		return 0, err // the claims end by themselves
	}
	outcomes := make([]outcome, len(rows))
	starting, stop := context.WithDeadline(ctx, ends.Add(-s.claim/3))
	defer stop()
	// A provider may have sent what a stop interrupts: the sender's own time-out ends the call, or the claim's end.
	calling, end := context.WithDeadline(context.WithoutCancel(ctx), ends.Add(-s.claim/12))
	defer end()
	var calls errgroup.Group
	calls.SetLimit(sideBySide)
	for i := range rows {
		out := &outcomes[i]
		letters, ready := b.decide(&rows[i], out)
		if !ready {
			continue
		}
		// The rate is the gateway's, not the mail server's.
		if starting.Err() != nil || !l.mail && s.limit.Wait(starting) != nil { // it is given back
			*out = outcome{state: waiting, next: s.now(), byMail: l.mail, othersAway: rows[i].OthersAway}
			continue
		}
		calls.Go(func() error {
			b.send(calling, &rows[i], letters, out)
			return nil
		})
	}
	_ = calls.Wait() // they report in outcomes
	if b.exceeded.Load() {
		used := fmt.Sprintf("%d were used, of %d a %s.", b.rules.Budget-b.room.Load(), b.rules.Budget, b.rules.BudgetPer)
		err = alarmBudget.Raise(ctx, s.deps.DB, "messages", used)
	}
	return len(rows), errors.Join(err, s.settle(ctx, q, rows, outcomes, ends))
}

// work on a batch.
type work struct {
	*Service
	lane
	rules    Rules
	readers  map[int64]reader
	live     map[string]bool   // what reminders may be about
	statuses map[ids.ID]string // of the orders that messages ask to pay
	room     atomic.Int64      // of the budget
	exceeded atomic.Bool
}

// prepareBatch reads what the messages of a batch need, each with one statement.
func (s *Service) prepareBatch(ctx context.Context, rows []messagedb.ClaimRow, l lane) (b *work, err error) {
	b = &work{Service: s, lane: l}
	if b.rules, err = s.rules(ctx); err != nil {
		return nil, err
	}
	users := make([]int64, len(rows))
	for i := range rows {
		users[i] = rows[i].UserID
	}
	if b.readers, err = s.readers(ctx, b.rules.texts, users); err != nil {
		return nil, err
	}
	if !l.offers {
		b.statuses, err = s.statuses(ctx, rows)
		return b, err
	}
	b.live = map[string]bool{}
	now := s.now()
	for _, o := range s.deps.Sale.Openings(now, now.Add(farthest)) {
		b.live[sessionOf(o)] = true
	}
	if b.rules.Budget > 0 {
		used, err := messagedb.New(s.deps.DB).PartsSince(ctx, b.rules.budgetFrom(now.In(s.deps.Zone)))
		if err != nil {
			return nil, failed("read what was spent", err)
		}
		b.room.Store(max(0, b.rules.Budget-used))
	}
	return b, nil
}

// statuses reads the orders that messages ask to pay.
func (s *Service) statuses(ctx context.Context, rows []messagedb.ClaimRow) (map[ids.ID]string, error) {
	var nos []ids.ID
	for i := range rows {
		if asksToPay(Kind(rows[i].Kind)) {
			nos = append(nos, rows[i].OrderNo)
		}
	}
	if len(nos) == 0 {
		return nil, nil
	}
	found, err := s.deps.Orders.Statuses(ctx, nos)
	return found, failed("read orders", err)
}

func asksToPay(k Kind) bool { return k == Won || k == Deadline }

// decide writes a message for each channel that reaches its reader, or notes why it is not sent now.
func (b *work) decide(row *messagedb.ClaimRow, out *outcome) (letters []letter, ready bool) {
	k, now, to := Kind(row.Kind), b.now(), b.readers[row.UserID]
	end := func(state, reason string) ([]letter, bool) {
		*out = outcome{state: state, reason: reason, next: now}
		return nil, false
	}
	switch {
	case !row.ExpiresAt.After(now):
		return end(dead, reasonExpired)
	case !b.rules.of(k).On:
		return end(dropped, reasonOff)
	case b.offers && !row.WantsOffers:
		return end(dropped, reasonUnsubscribed)
	case k == Reminder && !b.live[row.About]:
		return end(dropped, reasonMoved)
	case asksToPay(k) && b.statuses[row.OrderNo] != orderevent.StatusPending:
		return end(dropped, reasonOvertaken)
	}
	if _, until, quiet := b.rules.quiet(now.In(b.deps.Zone)); b.offers && quiet {
		if !until.Before(row.ExpiresAt) {
			return end(dropped, reasonQuiet)
		}
		*out = outcome{state: waiting, next: until}
		return nil, false
	}
	f, err := decodeFacts(row.Facts)
	if err != nil {
		return end(dead, err.Error())
	}
	language := b.rules.languageOf(row.Language, to[channelSMS])
	for _, language := range []httpx.Language{language, other[language]} { // better in the other language than not at all
		for _, channel := range channels {
			p := place{k, channel, language}
			if to[channel] != "" && (!isWeChat(channel) || b.rules.texts.has(p)) && (!b.mail || channel == channelMail) {
				letters = append(letters, b.compose(p, b.rules.texts.of(p), &f, row.UserID, row.OrderNo, row.ID, to[channel]))
			}
		}
		if len(letters) > 0 && letters[0].channel == channelMail && !b.mail {
			*out = outcome{state: waiting, next: now, byMail: true}
			return nil, false
		}
		if len(letters) > 0 {
			return letters, true
		}
	}
	if b.mail { // the address was taken away: the other loop sees what is left
		*out = outcome{state: waiting, next: now}
		return nil, false
	}
	return end(dropped, reasonNoAddress)
}

// later is when a message is tried again that a channel did not take; one that has expired by then dies.
func (b *work) later(row *messagedb.ClaimRow, now time.Time) time.Time {
	next := now.Add(b.backoff[min(max(int(row.Attempts), 1), len(b.backoff))-1])
	if !next.Before(row.ExpiresAt) { // a few more times before it is worth nothing
		next = now.Add(max(row.ExpiresAt.Sub(now)/2, b.backoff[0]))
	}
	return next
}

// affords takes the SMS of an offer from the budget, if they are left. What is left never falls below 0, not for a moment:
// another message at the same time may cost less, or nothing.
func (b *work) affords(parts int) bool {
	for b.offers && b.rules.Budget > 0 {
		left := b.room.Load()
		if left < int64(parts) {
			b.exceeded.Store(true)
			return false
		}
		if b.room.CompareAndSwap(left, left-int64(parts)) {
			break
		}
	}
	return true
}

// send sends a message by the first channel that takes it, unless its time has passed while it waited for its turn. While a
// channel is away an offer goes by those that cost nothing, and one about an order by any.
func (b *work) send(ctx context.Context, row *messagedb.ClaimRow, letters []letter, out *outcome) {
	now := b.now()
	if !row.ExpiresAt.After(now) {
		*out = outcome{state: dead, reason: reasonExpired, next: now}
		return
	}
	var away *outcome
	for _, l := range letters {
		if ctx.Err() != nil { // the claim is over
			*out = outcome{state: waiting, next: now, byMail: b.mail, othersAway: row.OthersAway}
			return
		}
		if l.channel == channelMail && !b.mail { // after what the others said, which it keeps; e-mail ends the attempt
			out.state, out.next, out.tried, out.byMail, out.othersAway = waiting, now, 0, true, away != nil
			return
		}
		if b.offers && away != nil && l.parts > 0 {
			continue
		}
		*out = outcome{next: now, tried: 1, channel: l.channel, recipient: l.recipient(), parts: l.parts}
		if !b.affords(l.parts) {
			out.state, out.reason = dropped, reasonBudget // unless another channel takes it
			continue
		}
		err := b.deliver(ctx, l)
		if err == nil {
			out.state = sent
			b.done.WithLabelValues(row.Kind, l.channel, sent).Inc()
			return
		}
		b.done.WithLabelValues(row.Kind, l.channel, "failed").Inc()
		if !errors.Is(err, outbound.ErrUnclear) {
			b.room.Add(int64(l.parts)) // it costs nothing
		}
		refused, coded := errors.AsType[*fault.Error](err)
		switch out.reason = short(err.Error()); {
		case errors.Is(err, outbound.ErrUnclear): // an operator decides about a second one
			out.state, out.reason = dead, short(reasonUnclear+": "+err.Error())
			return
		case coded && refused.Kind != fault.Unavailable:
			if out.state = dead; row.OthersAway { // unless another channel takes it
				out.state, out.next = waiting, b.later(row, now)
			}
		default:
			out.state, out.next = waiting, b.later(row, now)
			away = new(*out)
		}
	}
	if away != nil {
		*out = *away
	}
}

// settle notes what became of a batch. It ends even if ctx has, and tries as long as the claim lasts: what was sent must not
// be sent again. What still waits when the claim has ended belongs to another process.
func (s *Service) settle(ctx context.Context, q *messagedb.Queries, rows []messagedb.ClaimRow, outcomes []outcome, ends time.Time) error {
	p := messagedb.SettleParams{Day: dayOf(s.now().In(s.deps.Zone)), Unclear: reasonUnclear}
	over := !time.Now().Before(ends)
	for i, o := range outcomes {
		if over && o.state == waiting {
			continue
		}
		p.Ids, p.States, p.Reasons = append(p.Ids, rows[i].ID), append(p.States, o.state), append(p.Reasons, o.reason)
		p.Channels = append(p.Channels, o.channel)
		p.Recipients, p.Parts = append(p.Recipients, o.recipient), append(p.Parts, int32(o.parts)) //nolint:gosec // some
		p.NextTries, p.Tried = append(p.NextTries, o.next), append(p.Tried, o.tried)
		p.ByMails, p.OthersAways = append(p.ByMails, o.byMail), append(p.OthersAways, o.othersAway)
		if o.state == dead || o.state == dropped {
			s.done.WithLabelValues(rows[i].Kind, o.channel, o.state).Inc()
		}
	}
	ctx = context.WithoutCancel(ctx) // the lease is lost with Postgres
	for {
		noting, stop := context.WithTimeout(ctx, settleFor)
		err := q.Settle(noting, p)
		stop()
		if err == nil || !time.Now().Before(ends) {
			return failed("note what was sent", err)
		}
		s.deps.Log.WarnContext(ctx, "what became of messages is not noted, trying again", "messages", len(p.Ids), "error", err)
		_ = app.Sleep(ctx, settleAgain) // it does not end
	}
}

func dayOf(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
}

func short(reason string) string {
	if len(reason) > reasonBytes {
		return strings.ToValidUTF8(reason[:reasonBytes], "")
	}
	return reason
}

// failed names the operation of an error.
func failed(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("message: %s: %w", operation, err)
}

// unsubscribePath is the page that ends messages that are about no order.
const unsubscribePath = "/messages/unsubscribe"

// unsubscribeLink is an address that names a user and that only this shop can make.
func (s *Service) unsubscribeLink(user int64) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(user)) //nolint:gosec // an id
	return s.deps.BaseURL + unsubscribePath + "?t=" + base64.RawURLEncoding.EncodeToString(append(raw, s.keys.MAC(raw)...))
}

// unsubscriber is the user whom a link names.
func (s *Service) unsubscriber(token string) (user int64, ok bool) {
	const number = 8
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= number || !s.keys.Made(raw[number:], raw[:number]) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(raw)), true //nolint:gosec // an id
}
