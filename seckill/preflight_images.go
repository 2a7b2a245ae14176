package seckill

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
	found := all[:min(len(all), mostImages)]
	var fetching errgroup.Group
	fetching.SetLimit(imagesAtOnce)
	for i := range found {
		if strings.HasPrefix(strings.ToLower(found[i].Found), "http://") { // planned before this was refused
			found[i].Level, found[i].Found = preflight.Warning, fmt.Sprintf("%s: Browsers block a picture over http on the shop's pages; use https.", found[i].Found)
			continue
		}
		if strings.HasPrefix(found[i].Found, "/") { // at the shop's own address, which this server need not reach
			continue
		}
		fetching.Go(func() error {
			if err := fetchImage(ctx, p.s.deps.Images, found[i].Found); err != nil {
				found[i].Level = preflight.Warning
				found[i].Found += ": " + err.Error() + "."
			}
			return nil
		})
	}
	_ = fetching.Wait() // each image's error is in its finding
	bad := slices.DeleteFunc(slices.Clone(found), func(f preflight.Finding) bool { return f.Level == preflight.OK })
	if len(found) < len(all) {
		bad = append(bad, preflight.Finding{Level: preflight.OK, Found: fmt.Sprintf("The first %d of %d images were fetched.", len(found), len(all))})
	}
	return bad, nil
}

// pictures are the addresses of all images, each once, with the item that has it:
// first what shoppers see in lists.
func (p *planned) pictures(ctx context.Context) (all []preflight.Finding, err error) {
	known := map[string]bool{"": true}
	add := func(item int64, url string) {
		if !known[url] {
			known[url] = true
			all = append(all, preflight.Finding{Level: preflight.OK, Subject: inventory.ItemSubject(item), Found: url})
		}
	}
	for i := range p.sessions {
		for j := range p.sessions[i].items {
			add(p.sessions[i].items[j].ID, p.sessions[i].items[j].ImageUrl)
		}
	}
	rows, err := seckilldb.New(p.s.deps.DB).PicturesOf(ctx, p.activity.ID)
	if err != nil {
		return nil, fmt.Errorf("seckill: read pictures: %w", err)
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
