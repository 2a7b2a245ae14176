package message

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
)

const (
	// claimAtMost is how many messages a batch has: a statement for a hundred costs what one for ten does.
	claimAtMost = 100
	// sideBySide bounds the calls to the channels at a time: 16 to a gateway that takes 80 ms are 200 a second.
	sideBySide = 16
	// claimFor is how long a claim lasts; a batch ends before, so that no other process sends the same at the same time.
	claimFor, batchFor = time.Minute, 40 * time.Second
	// settleFor bounds the note of what was sent, which is made even if the process is being stopped.
	settleFor = 5 * time.Second
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
	reasonExpired      = "too late"
)

// sendLoop sends what is due.
func (s *Service) sendLoop(ctx context.Context) error {
	return app.Loop{
		Every: s.idle, Retry: leaderLife / 3, Due: s.deps.Pulse.Due("messages", due), Log: s.deps.Log, Failed: "messages not sent, trying again",
		Do: func(ctx context.Context) error {
			for more := true; more && ctx.Err() == nil; {
				n, err := s.batch(ctx, false)
				if n == 0 && err == nil { // those about orders first
					n, err = s.batch(ctx, true)
				}
				if more = n > 0; err != nil && ctx.Err() == nil {
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
	parts                             int32
	next                              time.Time
	tried                             int32 // attempts that this was
}

// batch sends claimed messages side by side, and returns how many there were.
func (s *Service) batch(ctx context.Context, offers bool) (int, error) {
	q := messagedb.New(s.deps.DB)
	rows, err := q.Claim(ctx, messagedb.ClaimParams{ClaimedFor: claimFor, Offer: offers, Most: claimAtMost})
	if err != nil || len(rows) == 0 {
		return 0, failed("claim", err)
	}
	b, err := s.prepareBatch(ctx, rows, offers)
	if err != nil {
		return 0, err // the claims end by themselves
	}
	outcomes := make([]outcome, len(rows))
	sending, stop := context.WithTimeout(ctx, batchFor)
	defer stop()
	var calls errgroup.Group
	calls.SetLimit(sideBySide)
	for i := range rows {
		m, ready := b.decide(&rows[i], &outcomes[i])
		if !ready {
			continue
		}
		if s.limit.Wait(sending) != nil { // it is given back
			outcomes[i] = outcome{state: waiting, next: s.now()}
			continue
		}
		calls.Go(func() error {
			b.send(sending, &rows[i], m, &outcomes[i])
			return nil
		})
	}
	_ = calls.Wait() // they report in outcomes
	if b.refused > 0 {
		err = alarmBudget.Raise(ctx, s.deps.DB, "messages", fmt.Sprintf("%d were used, of %d a %s.", b.rules.Budget-b.room, b.rules.Budget, b.rules.BudgetPer))
	}
	if e := s.settle(ctx, q, rows, outcomes); e != nil {
		err = e
	}
	return len(rows), err
}

// work on a batch.
type work struct {
	*Service
	rules   Rules
	texts   texts
	reached map[string]map[int64][]reach // by the kind's channels
	offers  bool
	live    map[string]bool // what reminders may be about
	room    int64           // of the budget
	refused int
	now     time.Time
}

// prepareBatch reads what the messages of a batch need, each with one statement.
func (s *Service) prepareBatch(ctx context.Context, rows []messagedb.ClaimRow, offers bool) (b *work, err error) {
	b = &work{Service: s, offers: offers, reached: map[string]map[int64][]reach{}, now: s.now()}
	if b.rules, err = s.rules(ctx); err != nil {
		return nil, err
	}
	if b.texts, err = s.textsNow(ctx); err != nil {
		return nil, err
	}
	users := make([]int64, len(rows))
	for i := range rows {
		users[i] = rows[i].UserID
	}
	for i := range rows {
		channels := b.rules.of(Kind(rows[i].Kind)).Channels
		key := strings.Join(channels, " ")
		if _, has := b.reached[key]; has {
			continue
		}
		if b.reached[key], err = s.addresses(ctx, channels, users); err != nil {
			return nil, err
		}
	}
	if !offers {
		return b, nil
	}
	b.live = map[string]bool{}
	for _, o := range s.deps.Sale.Openings(b.now, b.now.Add(farthest)) {
		b.live[sessionOf(o)] = true
	}
	if b.rules.Budget > 0 {
		used, err := messagedb.New(s.deps.DB).PartsSince(ctx, b.rules.budgetFrom(b.now.In(s.deps.Zone)))
		if err != nil {
			return nil, failed("read what was spent", err)
		}
		b.room = max(0, b.rules.Budget-used)
	}
	return b, nil
}

// ready is a message with the places that it may go to.
type ready struct {
	ways  []reach
	texts []Text // one for each way
	parts []int32
}

// decide writes a message's texts, or notes why it is not sent now.
func (b *work) decide(row *messagedb.ClaimRow, out *outcome) (ready, bool) {
	k := Kind(row.Kind)
	rule := b.rules.of(k)
	drop := func(reason string) (ready, bool) {
		*out = outcome{state: dropped, reason: reason, next: b.now}
		return ready{}, false
	}
	switch {
	case !row.ExpiresAt.After(b.now):
		*out = outcome{state: dead, reason: reasonExpired, next: b.now}
		return ready{}, false
	case !rule.On:
		return drop(reasonOff)
	case b.offers && !row.WantsOffers:
		return drop(reasonUnsubscribed)
	case k == Reminder && !b.live[row.About]:
		return drop(reasonMoved)
	}
	if _, until, quiet := b.rules.quiet(b.now.In(b.deps.Zone)); b.offers && quiet {
		if !until.Before(row.ExpiresAt) {
			return drop(reasonQuiet)
		}
		*out = outcome{state: waiting, next: until}
		return ready{}, false
	}
	f, err := decodeFacts(row.Facts)
	if err != nil {
		*out = outcome{state: dead, reason: err.Error(), next: b.now}
		return ready{}, false
	}
	m := ready{ways: b.reached[strings.Join(rule.Channels, " ")][row.UserID]}
	if len(m.ways) == 0 {
		return drop(reasonNoAddress)
	}
	most := int32(0)
	for _, way := range m.ways {
		t, parts := b.write(row, k, &f, way)
		m.texts, m.parts, most = append(m.texts, t), append(m.parts, parts), max(most, parts)
	}
	if b.offers && b.rules.Budget > 0 {
		if int64(most) > b.room {
			b.refused++
			return drop(reasonBudget)
		}
		b.room -= int64(most)
	}
	return m, true
}

// write fills the text of a message for a channel.
func (b *work) write(row *messagedb.ClaimRow, k Kind, f *facts, way reach) (Text, int32) {
	lang := b.rules.languageOf(row.Language, way.address)
	words := f.words(row.OrderNo, lang, b.now, b.deps.Zone)
	if k.Offer() {
		words[fillUnsubscribe] = b.unsubscribeLink(row.UserID)
	}
	m := b.compose(b.texts.of(k, way.channel, lang), k, way.channel, lang, words, row.OrderNo)
	m.ID, m.To = row.ID.String(), way.address
	return m, partsOf(way.channel, m.Body, way.address)
}

// partsOf is what a channel charges for a text.
func partsOf(channel, text, address string) int32 {
	if channel != ChannelSMS {
		return 1
	}
	return int32(Parts(text, strings.HasPrefix(address, china))) //nolint:gosec // a text has some thousand characters at most
}

// send tries the ways in their order until one takes the message.
func (b *work) send(ctx context.Context, row *messagedb.ClaimRow, m ready, out *outcome) {
	*out = outcome{tried: 1}
	for i, way := range m.ways {
		channel := b.deps.Channels[way.channel]
		out.channel, out.recipient, out.parts = way.channel, channel.Masked(way.address), m.parts[i]
		err := channel.Send(ctx, m.texts[i])
		if err == nil {
			out.state, out.reason, out.next = sent, "", b.now
			b.done.WithLabelValues(row.Kind, way.channel, sent).Inc()
			return
		}
		b.done.WithLabelValues(row.Kind, way.channel, "failed").Inc()
		out.reason = short(err.Error())
		if !final(err) {
			out.state = waiting
			out.next = b.now.Add(b.backoff[min(int(row.Attempts), len(b.backoff))-1])
			if !out.next.Before(row.ExpiresAt) { // a last time, shortly before it is worth nothing
				out.next = b.now.Add(row.ExpiresAt.Sub(b.now) / 2)
			}
			return
		}
	}
	out.state, out.next = dead, b.now
}

// settle notes what became of a batch. It ends even if ctx has: what was sent must not be sent again.
func (s *Service) settle(ctx context.Context, q *messagedb.Queries, rows []messagedb.ClaimRow, outcomes []outcome) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer stop()
	p := messagedb.SettleParams{Day: dayOf(s.now().In(s.deps.Zone))}
	for i, o := range outcomes {
		p.Ids, p.States, p.Reasons, p.Channels = append(p.Ids, rows[i].ID), append(p.States, o.state), append(p.Reasons, o.reason), append(p.Channels, o.channel)
		p.Recipients, p.Parts, p.NextTries, p.Tried = append(p.Recipients, o.recipient), append(p.Parts, o.parts), append(p.NextTries, o.next), append(p.Tried, o.tried)
		if o.state == dead || o.state == dropped {
			s.done.WithLabelValues(rows[i].Kind, o.channel, o.state).Inc()
		}
	}
	return failed("note what was sent", q.Settle(ctx, p))
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

// compose puts a text together.
func (s *Service) compose(t text, k Kind, channel string, lang httpx.Language, words map[string]string, no ids.ID) Text {
	words[fillShop], words[fillLink] = s.deps.Signature, s.deps.BaseURL+"/"
	if !no.IsZero() {
		words[fillLink] += "?order=" + no.String()
	}
	m := Text{
		Kind: k, Language: lang, Subject: fill(t.Subject, words), Body: fill(t.Body, words), Template: t.Template, Params: paramsOf(t.Body, words), Link: words[fillLink],
		Unsubscribe: words[fillUnsubscribe],
	}
	switch channel {
	case ChannelSMS:
		m.Body = [...]string{httpx.English: "[" + s.deps.Signature + "] ", httpx.Chinese: "【" + s.deps.Signature + "】"}[lang] + m.Body
		if k.Offer() {
			m.Body += optOut[lang]
		}
	case ChannelMail:
		m.Body += "\n\n" + s.deps.Signature + "\n" + m.Link
		if k.Offer() {
			m.Body += "\n\n" + [...]string{httpx.English: "Unsubscribe: ", httpx.Chinese: "退订："}[lang] + m.Unsubscribe
		}
	}
	return m
}
