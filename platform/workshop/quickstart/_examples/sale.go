// Sale plans a sale, sells a unit of it, and receives the news of it, with a client made from the API's document.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"quickstart/stampede"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// [client]
// client calls the shop as the holder of a token: of the API key, or of a shopper.
func client(token string) *stampede.ClientWithResponses {
	c, err := stampede.NewClientWithResponses(os.Getenv("SHOP"), stampede.WithHTTPClient(patient{}),
		stampede.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// patient repeats a request whose answer says when that makes sense.
type patient struct{}

func (patient) Do(r *http.Request) (*http.Response, error) {
	for {
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.Header.Get("Retry-After") == "" {
			return answer, err
		}
		answer.Body.Close()
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		if r.GetBody != nil {
			r.Body, _ = r.GetBody()
		}
	}
}

// refused is the error of an answer without the document that was wanted.
func refused(answer *http.Response, body []byte) error {
	return fmt.Errorf("%s %s: %s %s", answer.Request.Method, answer.Request.URL.Path, answer.Status, body)
}

// [/client]

// [plan]
// plan publishes a sale of 100 phones. Sent again, the same document changes nothing.
func plan(ctx context.Context, shop *stampede.ClientWithResponses, name string, opens time.Time) (item string, err error) {
	phone := stampede.ItemDraft{ExternalId: new(name + "-phone"), Sku: "phone", Title: "Phone", Stock: new(int32(100))}
	phone.ListPrice.Amount, phone.ListPrice.Currency = 599_900, "CNY" // in fen
	phone.SalePrice.Amount, phone.SalePrice.Currency = 499_900, "CNY"
	closes := opens.Add(time.Hour)
	got, err := shop.PutActivityDocumentWithResponse(ctx, name, nil, stampede.WholeActivity{
		Name: "First sale", StartsAt: opens, EndsAt: closes, Publish: new(true),
		Sessions: &[]stampede.SessionDraft{{ExternalId: new(name + "-noon"), Name: "Noon", OpensAt: opens, ClosesAt: closes, Items: &[]stampede.ItemDraft{phone}}},
	})
	if err != nil {
		return "", err
	}
	if got.JSON200 == nil {
		return "", refused(got.HTTPResponse, got.Body)
	}
	return (*(*got.JSON200.Activity.Sessions)[0].Items)[0].Id, nil
}

// [/plan]

// [sell]
// sell buys a unit for a user of the shop's own system, and returns where they pay.
func sell(ctx context.Context, shop *stampede.ClientWithResponses, user, item string) (orderNo, payURL string, err error) {
	login, err := shop.ExchangeUserWithResponse(ctx, stampede.UserExchange{Subject: user})
	if err != nil {
		return "", "", err
	}
	if login.JSON200 == nil {
		return "", "", refused(login.HTTPResponse, login.Body)
	}
	shopper := client(login.JSON200.AccessToken)

	// One path is one attempt: it can be sent again and has its effect once.
	path, err := shopper.IssueRushPathWithResponse(ctx, item, nil, stampede.RushPathRequest{Quantity: new(int32(1))})
	if err != nil {
		return "", "", err
	}
	if path.JSON200 == nil {
		return "", "", refused(path.HTTPResponse, path.Body)
	}
	time.Sleep(time.Until(path.JSON200.UsableFrom)) // the opening
	rush, err := shopper.RushWithResponse(ctx, path.JSON200.Path)
	if err != nil {
		return "", "", err
	}
	if rush.JSON202 == nil { // sold out, for example
		return "", "", refused(rush.HTTPResponse, rush.Body)
	}

	// In line: an answer with Retry-After until the order exists.
	pay, err := shopper.PayOrderWithResponse(ctx, rush.JSON202.OrderNo, nil, stampede.PaymentRequest{})
	if err != nil {
		return "", "", err
	}
	if pay.JSON200 == nil {
		return "", "", refused(pay.HTTPResponse, pay.Body)
	}
	return pay.JSON200.OrderNo, *pay.JSON200.PayUrl, nil
}

// [/sell]

// [receive]
// receive verifies what is posted to the webhook's address. An event may come twice.
func receive(secret string, paid func(stampede.OrderData)) http.HandlerFunc {
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		log.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = hook.Verify(body, r.Header)
		}
		var event stampede.Event
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kind, _ := event.ValueByDiscriminator() // nil for a type of a later release
		if event, ok := kind.(stampede.OrderPaidEvent); ok {
			paid(event.Data)
		}
	} // 200: it is not sent again
}

// [/receive]

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	news := make(chan stampede.OrderData, 100)
	go func() {
		log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), receive(os.Getenv("SECRET"), func(o stampede.OrderData) { news <- o })))
	}()

	shop := client(os.Getenv("KEY"))
	item, err := plan(ctx, shop, "first-go", time.Now().Add(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	orderNo, payURL, err := sell(ctx, shop, "user-go", item)
	if err != nil {
		log.Fatal(err)
	}
	// The shopper's browser goes there; the sandbox also takes a payment from a program.
	answer, err := http.Post(payURL, "application/json", strings.NewReader(`{"action":"pay"}`))
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	for order := range news {
		if order.OrderNo != orderNo {
			continue
		}
		got, err := shop.AdminGetOrderWithResponse(ctx, orderNo)
		if err != nil {
			log.Fatal(err)
		}
		if got.JSON200 == nil {
			log.Fatal(refused(got.HTTPResponse, got.Body))
		}
		fmt.Println(got.JSON200.Order.Status, orderNo)
		return
	}
}
