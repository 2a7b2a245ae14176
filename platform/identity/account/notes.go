package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/sms"
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
	// staffCode is a note that is a login code, see takeSMS.
	staffCode = "code"
)

// deviceNotes bounds the messages about new devices: a program that states another
// device id at each login must not send SMS at the shop's expense.
var deviceNotes = ratelimit.Rule{Name: "note-device", Count: 2, Per: longWindow}

// noteTo tells a user about a change to the account, from tx on: at me/notices, and by
// SMS if there is a gateway and the user has a phone.
func (s *Service) noteTo(ctx context.Context, tx pgx.Tx, user int64, about sms.Note) error {
	q := accountdb.New(tx)
	if err := q.PutNotice(ctx, accountdb.PutNoticeParams{UserID: user, About: string(about)}); err != nil {
		return fmt.Errorf("account: notice to a user: %w", err)
	}
	if s.deps.SMS == nil {
		return nil
	}
	err := q.PutNote(ctx, accountdb.PutNoteParams{ID: ids.New(), UserID: user, About: string(about)})
	if err != nil {
		return fmt.Errorf("account: note to a user: %w", err)
	}
	return nil
}

// noteDevice tells a user about a login on a device that is new to the account, before
// the login's row exists. The cookie says which device it is; one that has neither
// cookie nor id is not recognized, so not new either.
func (s *Service) noteDevice(ctx context.Context, tx pgx.Tx, user int64, d Device) error {
	if d.ID == "" && len(d.Browser) == 0 {
		return nil
	}
	browser := d.Browser
	if browser == nil {
		browser = []byte{} // not NULL
	}
	isNew, err := accountdb.New(tx).IsNewDevice(ctx, accountdb.IsNewDeviceParams{UserID: user, DeviceID: d.ID, Browser: browser})
	if err != nil {
		return fmt.Errorf("account: known devices: %w", err)
	}
	if !isNew {
		return nil
	}
	if allowed, err := s.deps.Limits.Take(ctx, ratelimit.Ask{Rule: deviceNotes, Key: ratelimit.UserKey(user)}); err != nil || !allowed.Allowed {
		return asFault("limits", err)
	}
	return s.noteTo(ctx, tx, user, sms.NoteDevice)
}

// sendNotes sends the due notes until ctx ends. Every instance runs it.
func (s *Service) sendNotes(ctx context.Context) error {
	return app.Loop{Every: notesEvery, Do: s.sendDue, Log: s.deps.Log, Failed: "sending notes to users failed"}.Run(ctx)
}

// sendDue sends the due notes. One that the gateway refuses, that has no phone to go to
// or that has failed too often is dropped.
func (s *Service) sendDue(ctx context.Context) error {
	if s.deps.SMS == nil {
		return nil
	}
	q := accountdb.New(s.deps.DB)
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
			err = s.take(ctx, s.shopAsk())
		}
		if isRefused(err) {
			if err := q.PostponeNote(ctx, accountdb.PostponeNoteParams{ID: n.ID, AfterSeconds: ceilingRetry.Seconds()}); err != nil {
				return fmt.Errorf("account: postpone a note: %w", err)
			}
			continue
		}
		if err == nil {
			err = s.sendNote(ctx, n)
		}
		if refused, coded := errors.AsType[*fault.Error](err); err != nil && n.Attempts < noteAttempts && (!coded || refused.Kind == fault.Unavailable) {
			continue // the claim's end is the next attempt
		}
		if err != nil {
			s.deps.Log.WarnContext(ctx, "note to a user dropped", "user", n.UserID, "about", n.About, "attempts", n.Attempts, "error", err)
		}
		if err := q.RemoveNote(ctx, n.ID); err != nil {
			return fmt.Errorf("account: remove a note: %w", err)
		}
	}
}

func (s *Service) sendNote(ctx context.Context, n accountdb.ClaimNoteRow) error {
	if n.Phone == nil || !s.cfg.SMSReach.Covers(*n.Phone) {
		return nil
	}
	lang := sms.English
	if Phone(*n.Phone).inChina() {
		lang = sms.Chinese
	}
	if n.About == staffCode {
		return s.giveCode(ctx, Phone(*n.Phone), ForLogin, lang, staffCode)
	}
	return s.deps.SMS.Send(ctx, sms.Message{ID: n.ID.String(), Phone: *n.Phone, Text: sms.NoteText(lang, s.cfg.SMSSignature, sms.Note(n.About))})
}
