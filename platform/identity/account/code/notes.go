package code

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/outbound"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
)

const (
	// notesEvery is how late a note is; its reader cannot act faster anyway.
	notesEvery = 2 * time.Second
	// noteAgain is the pause after the first failed attempt, and grows by itself with
	// each. It is longer than the sender's time-out, so that no note is sent twice
	// at the same time.
	noteAgain = 30 * time.Second
	// noteAttempts fit into a quarter of an hour, after which the gateway is down and
	// the note stale.
	noteAttempts = 7
	notesDue     = `EXISTS (SELECT FROM account.notes WHERE next_try <= statement_timestamp())`
	// staffCode is a note that is a login code, see takeSMS.
	staffCode = "code"
)

// Workers returns the loop that sends the due notes. Every instance runs it.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{
		Name: "account-notes",
		Run:  app.Loop{Every: notesEvery, Due: s.store.Pulse.Due("notes", notesDue), Do: s.SendDue, Log: s.store.Log, Failed: "sending notes to users failed"}.Run,
	}}
}

// SendDue sends the due notes. One that the gateway refuses, that has no phone to go to
// or that has failed too often is dropped.
func (s *Service) SendDue(ctx context.Context) error {
	if s.sender == nil {
		return nil
	}
	q := accountdb.New(s.store.DB)
	for {
		// One by one: a claim must not end while earlier notes are being sent.
		n, err := q.ClaimNote(ctx, noteAgain.Seconds())
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("account: claim a note: %w", err)
		}
		if n.About != staffCode { // which was counted by the limits of its phone
			err = s.guard.Take(ctx, s.shopAsk())
		}
		if guard.IsRefused(err) {
			if err := q.PostponeNote(ctx, accountdb.PostponeNoteParams{ID: n.ID, AfterSeconds: ceilingRetry.Seconds()}); err != nil {
				return fmt.Errorf("account: postpone a note: %w", err)
			}
			continue
		}
		if err == nil {
			err = s.sendNote(ctx, n)
		}
		// A note that may have been sent is not sent twice: its reader acts on one.
		if refused, coded := errors.AsType[*fault.Error](err); err != nil && !errors.Is(err, outbound.ErrUnclear) && n.Attempts < noteAttempts && (!coded || refused.Kind == fault.Unavailable) {
			continue // the claim's end is the next attempt
		}
		if err != nil {
			s.store.Log.WarnContext(ctx, "note to a user dropped", "user", n.UserID, "about", n.About, "attempts", n.Attempts, "error", err)
		}
		if err := q.RemoveNote(ctx, n.ID); err != nil {
			return fmt.Errorf("account: remove a note: %w", err)
		}
	}
}

func (s *Service) sendNote(ctx context.Context, n accountdb.ClaimNoteRow) error {
	if n.Phone == nil || !s.store.Config.SMSReach.Covers(*n.Phone) {
		return nil
	}
	phone := account.Phone(*n.Phone)
	if n.About == staffCode {
		return s.give(ctx, phone, sms.ForLogin, phone.Language(), staffCode)
	}
	m := sms.NoteMessage(s.store.Config.SMSSignature, sms.Note(n.About), phone.Language())
	m.ID, m.Phone = n.ID.String(), *n.Phone
	return s.sender.Send(ctx, m)
}
