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
)

const (
	// mostImages bounds the images that one preflight fetches, imagesAtOnce those that
	// it fetches together.
	mostImages   = 50
	imagesAtOnce = 8
	imageTimeout = 2500 * time.Millisecond // within the time of a check
)

// images fetches the items' images as a shopper would.
func (p *planned) images(ctx context.Context, _ preflight.Need) ([]preflight.Finding, error) {
	var found []preflight.Finding // of each image
	var all errgroup.Group
	all.SetLimit(imagesAtOnce)
	for i := range p.sessions {
		for j := range p.sessions[i].items {
			item := &p.sessions[i].items[j]
			if !strings.HasPrefix(item.ImageUrl, "http") || len(found) == mostImages { // another is a path of the shop's own pages
				continue
			}
			found = append(found, preflight.Finding{Level: preflight.Warning, Subject: inventory.ItemSubject(item.ID), Found: item.ImageUrl})
		}
	}
	for i := range found {
		all.Go(func() error {
			if err := fetchImage(ctx, p.s.deps.Images, found[i].Found); err != nil {
				found[i].Found += ": " + err.Error() + "."
			} else {
				found[i].Level = preflight.OK
			}
			return nil
		})
	}
	_ = all.Wait() // each image's error is in its finding
	return slices.DeleteFunc(found, func(f preflight.Finding) bool { return f.Level == preflight.OK }), nil
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
