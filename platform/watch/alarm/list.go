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

	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

// Alarm is one thing that needs a person's eye.
type Alarm struct {
	ID         int64    `json:"id,string"`
	Code       Code     `json:"code" example:"dead-letter" doc:"What is the case; the description of the list explains each"`
	Subject    string   `json:"subject" doc:"What it is about; one row per code and subject" example:"inventory-release-closed"`
	Severity   Severity `json:"severity" enum:"warning,critical"`
	Detail     string   `json:"detail,omitempty" doc:"What was found the last time"`
	NextAction string   `json:"next_action" doc:"What to do, in one or two sentences"`

	FirstSeen time.Time `json:"first_seen" doc:"The first occurrence of all"`
	OpenedAt  time.Time `json:"opened_at" doc:"When the present incident began: the first occurrence, or the first after an hour's silence"`
	LastSeen  time.Time `json:"last_seen" doc:"The latest occurrence"`
	Count     int64     `json:"count" doc:"Occurrences since first_seen"`

	AcknowledgedBy *string    `json:"acknowledged_by,omitempty" doc:"Who looks after it, as they said"`
	AcknowledgedAt *time.Time `json:"acknowledged_at,omitempty"`

	Incident int `json:"incident" doc:"Counts the incidents of this code and subject"`
}

// TransformSchema tells OpenAPI that the id is written as a string, which it does
// not see in the field's tag.
func (Alarm) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["id"] = &huma.Schema{Type: huma.TypeString, Examples: []any{"12"}}
	return s
}

// MarshalJSON writes the times as the API does.
func (a Alarm) MarshalJSON() ([]byte, error) {
	type plain Alarm // without this method
	doc := struct {
		plain
		FirstSeen      string `json:"first_seen"`
		OpenedAt       string `json:"opened_at"`
		LastSeen       string `json:"last_seen"`
		AcknowledgedAt string `json:"acknowledged_at,omitempty"`
	}{plain: plain(a), FirstSeen: httpx.Moment(a.FirstSeen), OpenedAt: httpx.Moment(a.OpenedAt), LastSeen: httpx.Moment(a.LastSeen)}
	if a.AcknowledgedAt != nil {
		doc.AcknowledgedAt = httpx.Moment(*a.AcknowledgedAt)
	}
	return json.Marshal(doc)
}

func alarmOf(row alarmdb.PlatformAlarm) Alarm {
	return Alarm{
		ID: row.ID, Code: Code(row.Code), Subject: row.Subject, Severity: Severity(row.Severity), Detail: row.Detail, NextAction: row.NextAction,
		FirstSeen: row.FirstSeen, OpenedAt: row.OpenedAt, LastSeen: row.LastSeen, Count: row.Count,
		AcknowledgedBy: row.AcknowledgedBy, AcknowledgedAt: row.AcknowledgedAt, Incident: int(row.Incident),
	}
}

// Filter narrows a list; its zero value takes everything.
type Filter struct {
	Open     bool // only what nobody has acknowledged
	Severity Severity
	Code     Code
	Before   Place
	Limit    int // rows; 0 means all
}

// Place is where a page of the list ends: the zero value is the beginning.
// Places are by the beginning of incidents, so a page does not move while
// alarms go on, and one that returns stands at the top.
type Place struct {
	openedAt time.Time
	id       int64
}

// After is the place behind an alarm.
func After(a Alarm) Place { return Place{a.OpenedAt, a.ID} }

// String wraps the place so that nobody counts on what is inside.
func (p Place) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.openedAt.UnixMicro(), 10) + "." + strconv.FormatInt(p.id, 10)))
}

var errPlace = errors.New("alarm: not a place in the list")

// ParsePlace reads what String wrote; the empty text is the beginning.
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

// List returns the alarms that pass the filter, the newest incident first.
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

// Acknowledge notes who looks after an alarm and returns it as it is then. An
// alarm that somebody has acknowledged already keeps the first name; changed
// tells whether this call was the first. It returns pgx.ErrNoRows for an
// unknown id.
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

// storable makes a text of bounded size that Postgres takes: neither broken
// UTF-8, which a cut may leave, nor NUL.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s[:min(len(s), detailBytes)], ""), "\x00", "")
}
