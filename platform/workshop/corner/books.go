package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// event is one of Stampede's, posted or pulled.
type event struct {
	ID, Type string
	Data     struct {
		OrderNo string `json:"order_no"`
		Status  string
		Version int
		Amount  struct{ Amount int64 }
	}
}

// books are what the shop knows of its orders and their money. An event is on the disk before it is acknowledged, so
// that a kill loses none, and counts once, however often it comes. Safe for concurrent use.
type books struct {
	mu   sync.Mutex
	file *os.File
	seen map[string]bool
	next string // where pulling goes on

	Status             map[string]string // by order number
	version            map[string]int
	Captured, Refunded int64
}

// line is one of the file's.
type line struct {
	Event *event
	Next  string
}

// open reads the file. A last line that a kill cut off was not acknowledged.
func open(name string) (*books, error) {
	b := &books{seen: map[string]bool{}, Status: map[string]string{}, version: map[string]int{}}
	had, _ := os.ReadFile(name) // there may be none yet
	had = had[:bytes.LastIndexByte(had, '\n')+1]
	for raw := range bytes.Lines(had) {
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, err
		}
		b.apply(l)
	}
	var err error
	if b.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		err = b.file.Truncate(int64(len(had)))
	}
	return b, err
}

func (b *books) write(lines ...line) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range lines {
		if err := json.NewEncoder(b.file).Encode(l); err != nil {
			return err
		}
		b.apply(l)
	}
	return b.file.Sync()
}

func (b *books) apply(l line) {
	if l.Next != "" {
		b.next = l.Next
	}
	if l.Event == nil || b.seen[l.Event.ID] {
		return
	}
	b.seen[l.Event.ID] = true
	switch data := l.Event.Data; {
	case l.Event.Type == "payment.captured":
		b.Captured += data.Amount.Amount
	case l.Event.Type == "refund.succeeded":
		b.Refunded += data.Amount.Amount
	case data.Version > b.version[data.OrderNo]: // of an order, and newer than what is known
		b.Status[data.OrderNo], b.version[data.OrderNo] = data.Status, data.Version
	}
}

// posted takes an event from the webhook. The library checks the signature, and that it is at most five minutes old.
func (c *corner) posted(w http.ResponseWriter, r *http.Request) {
	var e event
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil {
		err = c.hooks.Verify(body, r.Header)
	}
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	} else if err := c.books.write(line{Event: &e}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError) // it comes again
	}
}

// pull reads what was not posted: at the start, and every minute.
func (c *corner) pull() {
	for {
		var page struct {
			Data []event
			Next string
		}
		err := c.call(context.Background(), http.MethodGet, "/api/v1/events?after="+url.QueryEscape(c.books.next), "", nil, &page)
		var lines []line
		for i := range page.Data {
			lines = append(lines, line{Event: &page.Data[i]})
		}
		if err == nil {
			err = c.books.write(append(lines, line{Next: page.Next})...)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "events are not pulled, trying again:", err)
		}
		if err != nil || len(page.Data) == 0 {
			<-time.After(time.Minute)
		}
	}
}
