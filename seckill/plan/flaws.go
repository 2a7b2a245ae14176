package plan

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/external"
	"stampede/seckill/internal/wire"
)

// What is missing.
var (
	ErrNoActivity = fault.Plain(fault.NotFound, fault.T("There is no activity with this id.", "没有该编号的活动。"))
	ErrNoSession  = fault.Plain(fault.NotFound, fault.T("There is no session with this id.", "没有该编号的场次。"))
	ErrNoItem     = fault.Plain(fault.NotFound, fault.T("There is no item with this id.", "没有该编号的商品。"))
)

// ErrStale refuses an edit based on an outdated version: the sender has not
// seen the state that the edit would overwrite.
func ErrStale(have int32) error {
	return fault.ErrStale.Saying(
		fault.T("This has changed since you read it; read it again and repeat your edit with version {version}.",
			"内容在您查看后已被修改，请按版本 {version} 刷新后重新修改。", "version", have)).
		With("version", have)
}

// OrNotFound turns "no row" into the fault that names what is missing.
func OrNotFound(err error, missing *fault.Error, operation string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return missing
	default:
		return fmt.Errorf("plan: %s: %w", operation, err)
	}
}

// Flaws collects what is wrong with a request, field by field.
type Flaws fault.Flaws

// Add records a flaw of a field unless ok is true.
func (f *Flaws) Add(ok bool, location string, value any, says fault.Text) {
	switch v := value.(type) { // as the request wrote it
	case time.Time:
		value = v.Format(time.RFC3339Nano)
	case wire.ID:
		value = v.String()
	}
	(*fault.Flaws)(f).Add(ok, location, value, says)
}

// Err is the 422 that lists the flaws; nil when there are none.
func (f Flaws) Err() error { return fault.Flaws(f).Err() }

// external checks what a row keeps for the shop's other systems.
func (f *Flaws) external(location string, id *string, m external.Metadata) {
	external.Check((*fault.Flaws)(f), location, id, m)
}

// Texts that shoppers see: names, titles, specifications. They appear on pages,
// in orders, receipts and logs next to other text, so they must be legible and
// must not affect the text around them.

// name checks the name of an activity or session.
func (f *Flaws) name(location, name string) {
	f.Text(location, name, 1, maxNameRunes)
}

// Text checks the length of a text in characters. A text that must not be empty
// must have at least one visible character.
func (f *Flaws) Text(location, s string, least, most int) {
	n := utf8.RuneCountInString(s)
	f.Add(n >= least && n <= most, location, s,
		fault.T("This has {least} to {most} characters.", "长度为 {least} 至 {most} 个字符。", "least", least, "most", most))
	f.Add(least == 0 || n < least || strings.ContainsFunc(s, plaintext.Visible), location, s,
		fault.T("This text has no visible character; write at least one letter, digit or symbol.", "请填写可见的文字。"))
	f.Add(inEncoding(s), location, s,
		fault.T("This text was not sent as UTF-8, or contains U+FFFD; send it again as UTF-8.", "文字编码有误，请重新输入。"))
	f.Add(!strings.ContainsFunc(s, plaintext.Unruly), location, s,
		fault.T("This contains a control character, a line break or a character that changes the direction of "+
			"writing; remove it.",
			"含有换行或不可见的控制字符，请删除。"))
}

// inEncoding refuses U+FFFD, which JSON decoding substitutes for bytes that are
// not UTF-8: the original text is lost by then.
func inEncoding(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError)
}
