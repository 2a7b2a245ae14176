package seckill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/httpx"
	"stampede/seckill/browse"
	"stampede/seckill/internal/seckilldb"
)

const (
	// maxTextRunes is five pages of Chinese; with its HTML an answer stays small
	// enough to be cached by every instance.
	maxTextRunes = 10_000
	maxImages    = 9 // what shop pages in China show
	// maxCells bounds the tables of a text: a row gets as many cells as its heading has, also
	// where it is one character, so that 10,000 characters could make millions of them.
	maxCells = 10_000
)

// DetailDraft is what shoppers read about an item on its page. It is beside the item's
// row because every look at a plan reads the rows.
type DetailDraft struct {
	Description string   `json:"description" maxLength:"10000" doc:"CommonMark with tables; shoppers get it as HTML, without HTML of its own"`
	Images      []string `json:"images" nullable:"false" maxItems:"9" doc:"Addresses of pictures, https or paths of the shop's own address, in the order to show them"`
}

// writtenDetail is an item's detail with its own version: what operators write for
// shoppers to read makes no edit of the plan stale.
type writtenDetail struct {
	DetailDraft
	Version int32 `json:"version" minimum:"0" doc:"The version that was read, 0 before the first; the change is refused if the database has another one"`
}

// activityRules are an activity's rules in words.
type activityRules struct {
	Rules   string `json:"rules" maxLength:"10000" doc:"CommonMark with tables; shoppers read it on the page of each item"`
	Version int32  `json:"version" minimum:"0" doc:"The version that was read, 0 before the first; the change is refused if the database has another one"`
}

// detailRoutes registers the routes that read and write these texts.
func (s *Service) detailRoutes(api httpx.API) {
	const items, activities = adminBase + "/items/{id}/detail", adminBase + "/activities/{id}/rules"
	httpx.Register(api, readOp(items, "admin-get-item-detail", "An item's description and pictures, as operators wrote them", readProblems),
		func(ctx context.Context, in *ByID) (*bodyOf[writtenDetail], error) {
			return answerByID(in.ID, func(id int64) (writtenDetail, error) { return s.readDetail(ctx, id) })
		})
	httpx.Register(api, writeOp(http.MethodPut, items, "set-item-detail", "Replace an item's description and pictures, at any time until the end", http.StatusOK, patchProblems),
		func(ctx context.Context, in *editing[writtenDetail]) (*bodyOf[writtenDetail], error) {
			return answerByID(in.ID, func(id int64) (writtenDetail, error) { return s.setDetail(ctx, id, in.Body) })
		})
	httpx.Register(api, readOp(activities, "get-activity-rules", "An activity's rules in words, as operators wrote them", readProblems),
		func(ctx context.Context, in *ByID) (*bodyOf[activityRules], error) {
			return answerByID(in.ID, func(id int64) (activityRules, error) { return s.readRules(ctx, id) })
		})
	httpx.Register(api, writeOp(http.MethodPut, activities, "set-activity-rules", "Replace an activity's rules in words, at any time until the end", http.StatusOK, patchProblems),
		func(ctx context.Context, in *editing[activityRules]) (*bodyOf[activityRules], error) {
			return answerByID(in.ID, func(id int64) (activityRules, error) { return s.setRules(ctx, id, in.Body) })
		})
}

// markdown checks a text of several lines.
func (f *flaws) markdown(location, text string) {
	f.add(utf8.RuneCountInString(text) <= maxTextRunes, location, nil,
		fault.T("This has up to {most} characters.", "最多 {most} 个字符。", "most", maxTextRunes))
	widest := 0
	for line := range strings.Lines(text) {
		widest = max(widest, strings.Count(line, "|"))
	}
	f.add(widest*strings.Count(text, "\n") <= maxCells, location, nil,
		fault.T("Its tables are too large: the columns of the widest (its | signs) times the lines of the text are "+
			"{most} at most.",
			"文中表格过大，请精简。", "most", maxCells))
	f.add(inEncoding(text), location, nil,
		fault.T("This text was not sent as UTF-8, or contains U+FFFD; send it again as UTF-8.", "文字编码有误，请重新输入。"))
	ruled := func(r rune) bool { return plaintext.Unruly(r) && !strings.ContainsRune("\n\r\t", r) }
	f.add(!strings.ContainsFunc(text, ruled), location, nil,
		fault.T("This contains a control character or a character that changes the direction of writing; remove it.",
			"含有不可见的控制字符，请删除。"))
}

func (s *Service) readDetail(ctx context.Context, id int64) (writtenDetail, error) {
	if _, err := s.readItem(ctx, id); err != nil {
		return writtenDetail{}, err
	}
	return detailOf(ctx, seckilldb.New(s.deps.DB), id)
}

// detail checks what shoppers would read about an item.
func (f *flaws) detail(location string, in *DetailDraft) {
	f.markdown(location+".description", in.Description)
	f.add(len(in.Images) <= maxImages, location+".images", nil,
		fault.T("An item has up to {most} pictures.", "图片最多 {most} 张。", "most", maxImages))
	for i, image := range in.Images {
		location := fmt.Sprintf("%s.images[%d]", location, i)
		f.add(image != "" && validImage(image), location, image, imageRule)
		f.add(!slices.Contains(in.Images[:i], image), location, image,
			fault.T("This picture is already listed.", "图片地址重复。"))
	}
}

// detailOf reads an item's detail, which is empty until it is written.
func detailOf(ctx context.Context, q *seckilldb.Queries, id int64) (writtenDetail, error) {
	row, err := q.ItemDetail(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return writtenDetail{}, fmt.Errorf("seckill: read item detail: %w", err)
	}
	return writtenDetail{DetailDraft{row.Description, append([]string{}, row.Images...)}, row.Version}, nil
}

func (s *Service) setDetail(ctx context.Context, id int64, in writtenDetail) (writtenDetail, error) {
	in.Images = append([]string{}, in.Images...)
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		if _, _, err := c.lockItem(ctx, id, actAmend); err != nil {
			return err
		}
		var f flaws
		f.detail("body", &in.DetailDraft)
		if err := f.err(); err != nil {
			return err
		}
		before, err := detailOf(ctx, c.q, id)
		if err != nil {
			return err
		}
		if unchanged(before.DetailDraft, in.DetailDraft) { // a repeated request has the version of the first
			in = before
			return nil
		}
		if in.Version != before.Version {
			return errStale(before.Version)
		}
		in.Version++
		if err := c.putDetail(ctx, id, before, in); err != nil {
			return err
		}
		return c.touch(ctx)
	})
	return in, err
}

// putDetail writes a checked detail.
func (c *change) putDetail(ctx context.Context, id int64, before, in writtenDetail) error {
	if err := c.q.PutItemDetail(ctx, seckilldb.PutItemDetailParams{ItemID: id, Description: in.Description, Images: in.Images}); err != nil {
		return fmt.Errorf("seckill: write item detail: %w", err)
	}
	c.details = append(c.details, id)
	return c.record(ctx, "item.detail", inventory.ItemSubject(id), edited(before, in))
}

// putDetails writes the checked details of items that were created from drafts.
func (c *change) putDetails(ctx context.Context, items []itemView, drafts []ItemDraft) error {
	for i := range drafts {
		if drafts[i].Detail == nil {
			continue
		}
		none := DetailDraft{Images: []string{}}
		made := DetailDraft{drafts[i].Detail.Description, append([]string{}, drafts[i].Detail.Images...)}
		if err := c.putDetail(ctx, int64(items[i].ID), writtenDetail{none, 0}, writtenDetail{made, 1}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) readRules(ctx context.Context, id int64) (activityRules, error) {
	if _, err := seckilldb.New(s.deps.DB).Activity(ctx, id); err != nil {
		return activityRules{}, orNotFound(err, errNoActivity, "read activity")
	}
	return rulesOf(ctx, seckilldb.New(s.deps.DB), id)
}

func rulesOf(ctx context.Context, q *seckilldb.Queries, id int64) (activityRules, error) {
	row, err := q.ActivityRules(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return activityRules{}, fmt.Errorf("seckill: read activity rules: %w", err)
	}
	return activityRules{row.Rules, row.Version}, nil
}

func (s *Service) setRules(ctx context.Context, id int64, in activityRules) (activityRules, error) {
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		if err := c.lock(ctx, id, actAmend); err != nil {
			return err
		}
		var f flaws
		f.markdown("body.rules", in.Rules)
		if err := f.err(); err != nil {
			return err
		}
		before, err := rulesOf(ctx, c.q, id)
		if err != nil {
			return err
		}
		if before.Rules == in.Rules {
			in = before
			return nil
		}
		if in.Version != before.Version {
			return errStale(before.Version)
		}
		in.Version++
		if err := c.putRules(ctx, before, in); err != nil {
			return err
		}
		items, err := c.q.ItemsOf(ctx, []int64{id})
		if err != nil {
			return fmt.Errorf("seckill: read items of activity %d: %w", id, err)
		}
		for i := range items {
			c.details = append(c.details, items[i].ID)
		}
		return c.touch(ctx)
	})
	return in, err
}

// putRules writes the checked rules of the activity.
func (c *change) putRules(ctx context.Context, before, in activityRules) error {
	if err := c.q.PutActivityRules(ctx, seckilldb.PutActivityRulesParams{ActivityID: c.activity.ID, Rules: in.Rules}); err != nil {
		return fmt.Errorf("seckill: write activity rules: %w", err)
	}
	return c.record(ctx, "activity.rules", activitySubject(c.activity.ID), edited(before, in))
}

// Detail is what shoppers may read about an item; visible is false for an item of a
// draft.
func (p *publishedPlan) Detail(ctx context.Context, item int64) (d browse.Detail, visible bool, err error) {
	row, err := seckilldb.New(p.db).ShownDetail(ctx, item)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, false, nil
	}
	if err != nil {
		return d, false, fmt.Errorf("seckill: read item detail: %w", err)
	}
	d = browse.Detail{Images: row.Images, Description: row.Description, Rules: row.Rules}
	if row.ByReservation {
		d.Reserved = &row.Reserved
	}
	return d, true, nil
}
