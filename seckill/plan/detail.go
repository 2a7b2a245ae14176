package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/seckill/browse"
	"stampede/seckill/internal/seckilldb"
)

const (
	// MaxTextRunes is five pages of Chinese; with its HTML an answer stays small
	// enough to be cached by every instance.
	MaxTextRunes = 10_000
	maxImages    = 9 // what shop pages in China show
	// maxCells bounds the tables of a text: a row gets as many cells as its heading has, also
	// where it is one character, so that 10,000 characters could make millions of them.
	maxCells = 10_000
)

// DetailDraft is what shoppers read about an item on its page. It is beside the item's
// row because every look at a plan reads the rows.
type DetailDraft struct {
	Description string   `json:"description" maxLength:"10000" doc:"CommonMark with tables; shoppers get it as HTML, without HTML of its own" example:"**6.1-inch** screen, 48 MP camera"`
	Images      []string `json:"images" nullable:"false" maxItems:"9" doc:"Addresses of pictures, https or paths of the shop's own address, in the order to show them" example:"[\"/media/phone-15.jpg\"]"`
}

// WrittenDetail is an item's detail with its own version: what operators write for
// shoppers to read makes no edit of the plan stale.
type WrittenDetail struct {
	DetailDraft
	Version int32 `json:"version" minimum:"0" doc:"The version that was read, 0 before the first; the change is refused if the database has another one"`
}

// ActivityRules are an activity's rules in words.
type ActivityRules struct {
	Rules   string `json:"rules" maxLength:"10000" doc:"CommonMark with tables; shoppers read it on the page of each item" example:"One unit for each shopper."`
	Version int32  `json:"version" minimum:"0" doc:"The version that was read, 0 before the first; the change is refused if the database has another one"`
}

// Markdown checks a text of several lines.
func (f *Flaws) Markdown(location, text string) {
	f.Add(utf8.RuneCountInString(text) <= MaxTextRunes, location, nil,
		fault.T("This has up to {most} characters.", "最多 {most} 个字符。", "most", MaxTextRunes))
	widest := 0
	for line := range strings.Lines(text) {
		widest = max(widest, strings.Count(line, "|"))
	}
	f.Add(widest*strings.Count(text, "\n") <= maxCells, location, nil,
		fault.T("Its tables are too large: the columns of the widest (its | signs) times the lines of the text are "+
			"{most} at most.",
			"文中表格过大，请精简。", "most", maxCells))
	f.Add(inEncoding(text), location, nil,
		fault.T("This text was not sent as UTF-8, or contains U+FFFD; send it again as UTF-8.", "文字编码有误，请重新输入。"))
	ruled := func(r rune) bool { return plaintext.Unruly(r) && !strings.ContainsRune("\n\r\t", r) }
	f.Add(!strings.ContainsFunc(text, ruled), location, nil,
		fault.T("This contains a control character or a character that changes the direction of writing; remove it.",
			"含有不可见的控制字符，请删除。"))
}

// Detail checks what shoppers would read about an item.
func (f *Flaws) Detail(location string, in *DetailDraft) {
	f.Markdown(location+".description", in.Description)
	f.Add(len(in.Images) <= maxImages, location+".images", nil,
		fault.T("An item has up to {most} pictures.", "图片最多 {most} 张。", "most", maxImages))
	for i, image := range in.Images {
		location := fmt.Sprintf("%s.images[%d]", location, i)
		f.Add(image != "" && validImage(image), location, image, imageRule)
		f.Add(!slices.Contains(in.Images[:i], image), location, image,
			fault.T("This picture is already listed.", "图片地址重复。"))
	}
}

// DetailOf reads an item's detail, which is empty until it is written.
func DetailOf(ctx context.Context, q *seckilldb.Queries, id int64) (WrittenDetail, error) {
	row, err := q.ItemDetail(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return WrittenDetail{}, fmt.Errorf("plan: read item detail: %w", err)
	}
	return WrittenDetail{DetailDraft{row.Description, append([]string{}, row.Images...)}, row.Version}, nil
}

// RulesOf reads an activity's rules in words, which are empty until they are written.
func RulesOf(ctx context.Context, q *seckilldb.Queries, id int64) (ActivityRules, error) {
	row, err := q.ActivityRules(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return ActivityRules{}, fmt.Errorf("plan: read activity rules: %w", err)
	}
	return ActivityRules{row.Rules, row.Version}, nil
}

// Detail is what shoppers may read about an item; visible is false for an item of a
// draft.
func (p *Published) Detail(ctx context.Context, item int64) (d browse.Detail, visible bool, err error) {
	row, err := seckilldb.New(p.db).ShownDetail(ctx, item)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, false, nil
	}
	if err != nil {
		return d, false, fmt.Errorf("plan: read item detail: %w", err)
	}
	d = browse.Detail{Images: row.Images, Description: row.Description, Rules: row.Rules}
	if row.ByReservation {
		d.Reserved = &row.Reserved
	}
	return d, true, nil
}
