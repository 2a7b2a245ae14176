package alarm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

// Alarm is a problem that needs an operator's attention.
type Alarm struct {
	ID         int64    `json:"id,string"`
	Code       Code     `json:"code" example:"dead-letter" doc:"The problem; the description of the list explains each code"`
	Subject    string   `json:"subject" doc:"What the alarm is about; one row per code and subject" example:"inventory-release-closed"`
	Severity   Severity `json:"severity" enum:"warning,critical,info"`
	Detail     string   `json:"detail,omitempty" doc:"Details of the latest occurrence"`
	NextAction string   `json:"next_action" doc:"What to do, in one or two sentences" example:"Look at the dead letters and redrive them."`

	FirstSeen time.Time `json:"first_seen_at" doc:"The first occurrence ever"`
	OpenedAt  time.Time `json:"opened_at" doc:"When the current incident began: the first occurrence, or the first after an hour's silence"`
	LastSeen  time.Time `json:"last_seen_at" doc:"The latest occurrence"`
	Count     int64     `json:"count" doc:"Occurrences since first_seen_at"`

	AcknowledgedBy *string    `json:"acknowledged_by,omitempty" doc:"Who handles it" example:"7"`
	AcknowledgedAt *time.Time `json:"acknowledged_at,omitempty"`

	Incident int `json:"incident" doc:"Number of incidents of this code and subject"`
}

// TransformSchema tells OpenAPI that the id is a string, which the field's tag does
// not show.
func (Alarm) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["id"] = &huma.Schema{Type: huma.TypeString, Examples: []any{"12"}}
	return s
}

// MarshalJSON formats the times as the API does.
func (a Alarm) MarshalJSON() ([]byte, error) {
	type plain Alarm // without this method
	doc := struct {
		plain
		FirstSeen      string `json:"first_seen_at"`
		OpenedAt       string `json:"opened_at"`
		LastSeen       string `json:"last_seen_at"`
		AcknowledgedAt string `json:"acknowledged_at,omitempty"`
	}{plain: plain(a), FirstSeen: httpx.Moment(a.FirstSeen), OpenedAt: httpx.Moment(a.OpenedAt), LastSeen: httpx.Moment(a.LastSeen)}
	if a.AcknowledgedAt != nil {
		doc.AcknowledgedAt = httpx.Moment(*a.AcknowledgedAt)
	}
	return json.Marshal(doc)
}

// Next is what to do, in every language; of a code that this version does not define, as
// the version that raised it said.
func (a Alarm) Next() fault.Text {
	if d := defined[a.Code]; d != nil {
		return d.Action
	}
	return fault.Text{a.NextAction, a.NextAction}
}

func alarmOf(row alarmdb.PlatformAlarm) Alarm {
	return Alarm{
		ID: row.ID, Code: Code(row.Code), Subject: row.Subject, Severity: Severity(row.Severity), Detail: row.Detail, NextAction: row.NextAction,
		FirstSeen: row.FirstSeen, OpenedAt: row.OpenedAt, LastSeen: row.LastSeen, Count: row.Count,
		AcknowledgedBy: row.AcknowledgedBy, AcknowledgedAt: row.AcknowledgedAt, Incident: int(row.Incident),
	}
}

// Filter narrows a list; the zero value matches every alarm.
type Filter struct {
	Open     bool // only unacknowledged alarms
	Severity Severity
	Code     Code
	Before   Place
	Limit    int // rows; 0 means all
}

// Place is where a page of the list ends; the zero value is the beginning. Places
// are ordered by the beginning of incidents, so a page does not move while alarms
// continue, and an alarm that returns is first.
type Place struct {
	openedAt time.Time
	id       int64
}

// After is the place after an alarm.
func After(a Alarm) Place { return Place{a.OpenedAt, a.ID} }

// OpenedBefore is the place before which every incident began earlier than at.
func OpenedBefore(at time.Time) Place { return Place{at, 1} }

// String encodes the place, so that clients do not rely on its content.
func (p Place) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.openedAt.UnixMicro(), 10) + "." + strconv.FormatInt(p.id, 10)))
}

var errPlace = errors.New("alarm: not a place in the list")

// ParsePlace parses the output of String; the empty text is the beginning.
func ParsePlace(s string) (Place, error) {
	if s == "" {
		return Place{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return Place{}, errPlace
	}
	at, id, _ := strings.Cut(string(raw), ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || micros <= 0 || micros > maxMicros {
		return Place{}, errPlace
	}
	p := Place{openedAt: time.UnixMicro(micros)}
	if p.id, err = strconv.ParseInt(id, 10, 64); err != nil || p.id <= 0 {
		return Place{}, errPlace
	}
	return p, nil
}

// maxMicros is the year 9999, the last that Postgres and JSON agree on.
const maxMicros = 253_402_300_799_000_000

// List returns the alarms that match the filter, the newest incident first.
func List(ctx context.Context, db pg.DB, f Filter) ([]Alarm, error) {
	var before *time.Time
	if f.Before.id != 0 {
		before = &f.Before.openedAt
	}
	rows, err := alarmdb.New(db).Alarms(ctx, alarmdb.AlarmsParams{
		Open: f.Open, Severity: string(f.Severity), Code: string(f.Code), Before: before, BeforeID: f.Before.id, AtMost: int32(f.Limit), //nolint:gosec // a page
	})
	if err != nil {
		return nil, fmt.Errorf("alarm: list: %w", err)
	}
	list := make([]Alarm, len(rows))
	for i, row := range rows {
		list[i] = alarmOf(row)
	}
	return list, nil
}

// Acknowledge records who handles an alarm and returns the alarm. An acknowledged
// alarm keeps the first name; changed reports whether this call was the first. It
// returns pgx.ErrNoRows for an unknown id.
func Acknowledge(ctx context.Context, db pg.DB, id int64, by string) (a Alarm, changed bool, err error) {
	q := alarmdb.New(db)
	row, err := q.AcknowledgeAlarm(ctx, alarmdb.AcknowledgeAlarmParams{ID: id, AcknowledgedBy: by})
	if changed = err == nil; errors.Is(err, pgx.ErrNoRows) {
		row, err = q.Alarm(ctx, id)
	}
	if err != nil {
		return Alarm{}, false, fmt.Errorf("alarm: acknowledge %d: %w", id, err)
	}
	return alarmOf(row), changed, nil
}

// storable truncates a text and makes it valid for Postgres: without broken UTF-8,
// which truncation may leave, and without NUL.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s[:min(len(s), detailBytes)], ""), "\x00", "")
}
