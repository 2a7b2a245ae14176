package readiness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/edge/outbound"
	"stampede/platform/watch/preflight"
	"stampede/seckill/internal/seckilldb"
)

const (
	// mostImages bounds the images that one preflight fetches, imagesAtOnce those that
	// it fetches together.
	mostImages   = 50
	imagesAtOnce = 8
	imageTimeout = 2500 * time.Millisecond // of all images, within the time of a check
)

// images fetches the items' images, and the pictures of their details, as a shopper would.
func (p *planned) images(ctx context.Context, _ preflight.Need) ([]preflight.Finding, error) {
	all, err := p.pictures(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, imageTimeout)
	defer cancel()
	looked := all[:min(len(all), mostImages)]
	found := make([]preflight.Finding, len(looked))
	var fetching errgroup.Group
	fetching.SetLimit(imagesAtOnce)
	for i, image := range looked {
		wrong := func(says fault.Text) {
			found[i] = preflight.Finding{Level: preflight.Warning, Subject: inventory.ItemSubject(image.item), Found: says}
		}
		switch {
		case strings.HasPrefix(strings.ToLower(image.url), "http://"): // planned before this was refused
			wrong(fault.T("{image}: Browsers block a picture over http on the shop's pages; use https.",
				"{image}：浏览器会拦截 http 图片，顾客看不到，请改用 https。", "image", image.url))
		case strings.HasPrefix(image.url, "/"): // at the shop's own address, which this server need not reach
		default:
			fetching.Go(func() error {
				if err := fetchImage(ctx, p.s.deps.Images, image.url); err != nil {
					wrong(fault.T("{image}: {why}.", "{image}：{why}。", "image", image.url, "why", err))
				}
				return nil
			})
		}
	}
	_ = fetching.Wait() // each image's error is in its finding
	bad := slices.DeleteFunc(found, func(f preflight.Finding) bool { return f.Level == "" })
	if len(looked) < len(all) {
		bad = append(bad, preflight.Finding{Level: preflight.OK, Found: fault.T("The first {fetched} of {all} images were fetched.",
			"共 {all} 张图片，已检查前 {fetched} 张。", "fetched", len(looked), "all", len(all))})
	}
	return bad, nil
}

type picture struct {
	item int64
	url  string
}

// pictures are the addresses of all images, each once, with the item that has it:
// first what shoppers see in lists.
func (p *planned) pictures(ctx context.Context) (all []picture, err error) {
	known := map[string]bool{"": true}
	add := func(item int64, url string) {
		if !known[url] {
			known[url] = true
			all = append(all, picture{item, url})
		}
	}
	for _, item := range p.Items() {
		add(item.ID, item.ImageUrl)
	}
	rows, err := seckilldb.New(p.s.deps.DB).PicturesOf(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("readiness: read pictures: %w", err)
	}
	for _, row := range rows {
		for _, url := range row.Images {
			add(row.ItemID, url)
		}
	}
	return all, nil
}

// fetchImage returns an error unless url answers with an image. It reads no more
// than the answer's head.
func fetchImage(ctx context.Context, client *outbound.Client, url string) error {
	return client.Stream(ctx, outbound.Request{URL: url}, func(r outbound.Reply, _ io.Reader) error {
		if r.Status != http.StatusOK {
			return fmt.Errorf("status %d", r.Status)
		}
		if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "image/") {
			return fmt.Errorf("the answer is %q, not an image", kind)
		}
		return nil
	})
}
