package alipay

import (
	"archive/zip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/platform/edge/outbound"
)

// The columns that are read, by the beginning of their names.
const (
	colTrade, colPayment, colBusiness = "支付宝交易号", "商户订单号", "业务类型"
	colDone, colAmount                = "完成时间", "订单金额"
	colRefund                         = "退款批次号"
	// BusinessRefund is the kind of a row that is a refund; other rows are payments.
	BusinessRefund = "退款"
	// DetailsName is in the name of the file that has the rows; others sum them up.
	DetailsName = "业务明细"
	summaryName = "汇总"
	// maxBillBytes bounds what is stored of a bill: ten million rows.
	maxBillBytes = 1 << 30
	// maxUnpackedBytes bounds what is read of an archive, which may be a bomb: as many rows.
	maxUnpackedBytes = 4 << 30
)

// Statement implements provider.Provider. The bill is a zip archive, which is stored in a
// temporary file, because its directory is at its end.
func (c *Client) Statement(ctx context.Context, d provider.Day) provider.Lines {
	return provider.LinesOf(func(pass func(provider.Line) bool) error {
		if c.now().Before(d.To) {
			return provider.ErrNotReady
		}
		r, err := c.call(ctx, MethodBill, Biz{BillType: "trade", BillDate: d.From.In(company.China).Format(time.DateOnly), Secure: "true"})
		if errors.Is(err, company.ErrNoBill) {
			return company.NoBill(c.now(), d)
		}
		if err == nil {
			err = c.readBill(ctx, r.BillDownloadURL, pass)
		}
		if err != nil {
			return fmt.Errorf("alipay: statement: %w", err)
		}
		return nil
	})
}

// readBill downloads a bill and passes its lines on until pass wants no more.
func (c *Client) readBill(ctx context.Context, address string, pass func(provider.Line) bool) (err error) {
	// The link is signed, and what it leads to is not.
	if strings.HasPrefix(c.cfg.URL, "https:") && !strings.HasPrefix(address, "https:") {
		return errors.New("the link to the bill is not https")
	}
	file, err := os.CreateTemp("", "alipay-bill-*.zip")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	size := int64(0)
	err = c.Bills.Stream(ctx, outbound.Request{URL: address}, func(r outbound.Reply, body io.Reader) (err error) {
		if r.Status != http.StatusOK {
			return fmt.Errorf("the bill has status %d", r.Status)
		}
		if size, err = io.Copy(file, io.LimitReader(body, maxBillBytes+1)); err == nil && size > maxBillBytes {
			err = errors.New("the bill is too long")
		}
		return err
	})
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return err
	}
	found := false
	for _, f := range archive.File {
		name, err := simplifiedchinese.GBK.NewDecoder().String(f.Name)
		if err != nil || f.Flags&utf8Name != 0 {
			name = f.Name
		}
		if !strings.Contains(name, DetailsName) || strings.Contains(name, summaryName) {
			continue
		}
		found = true
		rows, err := f.Open()
		if err != nil {
			return err
		}
		text := simplifiedchinese.GBK.NewDecoder().Reader(&bounded{ctx: ctx, r: rows, left: maxUnpackedBytes})
		if err := errors.Join(details.Read(text, pass), rows.Close()); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("the archive has no details")
	}
	return nil
}

// bounded reads so many bytes, and no longer than its context lives.
type bounded struct {
	ctx  context.Context // io.Reader takes none
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errors.New("the bill is too long when it is unpacked")
	}
	return n, err
}

// utf8Name is the flag of a file whose name in the archive is UTF-8.
const utf8Name = 0x800

// details is how Alipay writes the rows: between comments, with cells padded by tabs.
var details = company.Bill{Comment: "#", Cells: cellsOf, Line: lineOf}

// cellsOf splits one row. A quotation mark at the beginning of a cell may be a quote or,
// as in a product's name, only a character: then it must not swallow the cells after it,
// or the rows.
func cellsOf(row string, columns int) []string {
	quoted := csv.NewReader(strings.NewReader(row))
	quoted.FieldsPerRecord, quoted.LazyQuotes = -1, true
	if cells, err := quoted.Read(); err == nil && len(cells) >= columns {
		return cells
	}
	return strings.Split(row, ",")
}

// lineOf reads a row. The amounts of refunds are negative.
func lineOf(cell func(string) string) (l provider.Line, moved bool, err error) {
	l = provider.Line{Kind: provider.Paid, Transaction: cell(colTrade), PaymentNo: company.OurNumber(cell(colPayment)), Currency: company.CNY}
	if cell(colBusiness) == BusinessRefund {
		// Our number names the movement in the ledger too: Alipay has none for refunds.
		l.Kind, l.Transaction, l.RefundNo = provider.PaidBack, cell(colRefund), company.OurNumber(cell(colRefund))
		if l.Transaction == "" {
			l.Transaction = cell(colTrade) + " " + cell(colDone) // made in Alipay's console
		}
	}
	if l.Transaction == "" {
		return l, false, errors.New("a row without a trade number")
	}
	if l.Amount, err = company.ParseYuan(strings.TrimPrefix(cell(colAmount), "-")); err != nil {
		return l, true, err
	}
	l.At, err = ParseTime(cell(colDone))
	return l, true, err
}
