package browse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/microcosm-cc/bluemonday"
	"github.com/redis/go-redis/v9"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"stampede/inventory"
	"stampede/seckill/internal/wire"
)

const (
	// detailKeyPrefix + item: the finished answer, JSON.
	detailKeyPrefix = "sd:"
	// A detail is kept in Redis for a minute, so that a shop full of items reads
	// Postgres a few times a second, and a correction whose removal was lost is seen
	// after as long. The jitter keeps details from expiring together.
	detailLeast  = time.Minute
	detailJitter = 15 * time.Second
)

// Detail is what shoppers read about an item besides its view: texts in Markdown, as
// operators wrote them.
type Detail struct {
	Images      []string
	Description string
	Rules       string // of the activity
	Reserved    *int64 // how many shoppers have a reservation; nil where none is required
}

// itemDetail is the same as shoppers get it.
type itemDetail struct {
	ItemID          wire.ID  `json:"item_id"`
	Images          []string `json:"images" nullable:"false" doc:"Addresses of up to nine pictures, in the order to show them" example:"[\"/media/phone-15.jpg\"]"`
	DescriptionHTML string   `json:"description_html" doc:"What the item is, as HTML without scripts, styles and attributes of the writer's; empty if there is no description" example:"<p><strong>6.1-inch</strong> screen, 48 MP camera</p>"`
	RulesHTML       string   `json:"rules_html" doc:"The activity's rules, likewise" example:"<p>One unit for each shopper.</p>"`
	Reserved        *int64   `json:"reserved,omitempty" doc:"How many shoppers have reserved it, up to a minute old; left out where no reservation is required"`
}

// texts converts Markdown (CommonMark with tables and strikethrough) to HTML, without
// HTML in the text. It lets some addresses pass that a browser executes (autolinks,
// entities), so that harmless has the last word: known elements and attributes, and
// addresses of http, https and mailto.
var (
	texts    = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough))
	harmless = bluemonday.UGCPolicy()
)

func html(markdown string) (string, error) {
	var out bytes.Buffer
	if err := texts.Convert([]byte(markdown), &out); err != nil {
		return "", fmt.Errorf("seckill: render a text: %w", err)
	}
	return harmless.Sanitize(out.String()), nil
}

func detailKey(item int64) string { return detailKeyPrefix + strconv.FormatInt(item, 10) }

// buildDetail builds an item's detail; nil if the item is not published.
func (b *Service) buildDetail(ctx context.Context, id int64) (any, time.Time, error) {
	if _, ok := b.deps.Catalogue.Item(id); !ok {
		return nil, time.Time{}, nil
	}
	kept, err := b.deps.Redis.Get(ctx, detailKey(id)).Bytes()
	if err == nil {
		return json.RawMessage(kept), time.Time{}, nil
	}
	if !errors.Is(err, redis.Nil) {
		return nil, time.Time{}, fmt.Errorf("seckill: read item detail: %w", err)
	}
	d, visible, err := b.deps.Plan.Detail(ctx, id)
	if err != nil || !visible {
		return nil, time.Time{}, err
	}
	out, err := detailOf(wire.ID(id), d)
	if err != nil {
		return nil, time.Time{}, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("seckill: encode item detail: %w", err)
	}
	if err := b.deps.Redis.Set(ctx, detailKey(id), raw, detailLeast+rand.N(detailJitter)).Err(); err != nil { //nolint:gosec // jitter is no secret
		return nil, time.Time{}, fmt.Errorf("seckill: keep item detail: %w", err)
	}
	return json.RawMessage(raw), time.Time{}, nil
}

func detailOf(id wire.ID, d Detail) (out itemDetail, err error) {
	out = itemDetail{ItemID: id, Images: append([]string{}, d.Images...), Reserved: d.Reserved}
	if out.DescriptionHTML, err = html(d.Description); err != nil {
		return out, err
	}
	out.RulesHTML, err = html(d.Rules)
	return out, err
}

// ForgetDetails makes the next readers of items read their details again.
func (b *Service) ForgetDetails(ctx context.Context, items ...int64) error {
	_, err := b.deps.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, id := range items {
			pipe.Del(ctx, detailKey(id))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("seckill: forget item details: %w", err)
	}
	return nil
}

// Preview is an item as its page will show it to shoppers.
type Preview struct {
	Item   shopItem   `json:"item"`
	Detail itemDetail `json:"detail"`
}

// PreviewOf renders an item of a plan, with none of its units taken.
func PreviewOf(s *Session, i *Item, d Detail, now time.Time) (p Preview, err error) {
	p.Item = shopItemOf(s, i, inventory.State{Total: int64(i.OnSale), Remaining: int64(i.OnSale)}, true, now)
	p.Detail, err = detailOf(i.ID, d)
	return p, err
}
