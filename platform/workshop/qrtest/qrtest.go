// Package qrtest reads QR codes in tests.
package qrtest

import (
	"fmt"
	"image"
)

// Read decodes a clean QR code of error correction level M and version 1 to 6 by
// ISO/IEC 18004, without error correction: every bit must be right. margin is the
// width of the quiet zone in modules.
func Read(img image.Image) (text string, version, margin int, err error) {
	side := img.Bounds().Dx()
	black := func(x, y int) bool { r, _, _, _ := img.At(x, y).RGBA(); return r == 0 }
	// The first dark pixel is the corner of a finder pattern, whose edge has 7 modules.
	edge := 0
	for edge < side && !black(edge, edge) {
		edge++
	}
	run := 0
	for edge+run < side && black(edge+run, edge) {
		run++
	}
	pixels := run / 7
	if pixels == 0 {
		return "", 0, 0, fmt.Errorf("no finder pattern")
	}
	modules := (side - 2*edge) / pixels
	version, margin = (modules-17)/4, edge/pixels
	blocks := [][2]int{{}, {1, 16}, {1, 28}, {1, 44}, {2, 32}, {2, 43}, {4, 27}} // count, data codewords of each
	if modules != 17+4*version || version < 1 || version >= len(blocks) {
		return "", version, margin, fmt.Errorf("%d modules", modules)
	}
	at := func(row, col int) bool { return black(edge+col*pixels+pixels/2, edge+row*pixels+pixels/2) }

	format := 0
	bit := func(row, col int) {
		format <<= 1
		if at(row, col) {
			format |= 1
		}
	}
	// Around the upper left corner, skipping the timing patterns.
	for _, col := range []int{0, 1, 2, 3, 4, 5, 7, 8} {
		bit(8, col)
	}
	for _, row := range []int{7, 5, 4, 3, 2, 1, 0} {
		bit(row, 8)
	}
	format ^= 0x5412
	if level := format >> 13; level != 0 {
		return "", version, margin, fmt.Errorf("error correction level %d, M is 0", level)
	}
	mask := format >> 10 & 7

	var data []byte
	bits := 0
	for right, up := modules-1, true; right > 0; right, up = right-2, !up {
		if right == 6 { // skips the timing column
			right--
		}
		for i := range modules {
			row := i
			if up {
				row = modules - 1 - i
			}
			for _, col := range []int{right, right - 1} {
				if isFunction(row, col, modules, version) {
					continue
				}
				if bits%8 == 0 {
					data = append(data, 0)
				}
				data[bits/8] <<= 1
				if at(row, col) != masked(mask, row, col) {
					data[bits/8] |= 1
				}
				bits++
			}
		}
	}
	count, each := blocks[version][0], blocks[version][1]
	var plain []byte
	for b := range count {
		for i := range each {
			plain = append(plain, data[i*count+b])
		}
	}
	if mode := plain[0] >> 4; mode != 4 {
		return "", version, margin, fmt.Errorf("mode %d, bytes are 4", mode)
	}
	length := int(plain[0]&15)<<4 | int(plain[1]>>4)
	var out []byte
	for i := range length {
		out = append(out, plain[1+i]<<4|plain[2+i]>>4)
	}
	return string(out), version, margin, nil
}

// isFunction reports whether a module carries no data.
func isFunction(row, col, modules, version int) bool {
	low, high := 9, modules-8
	if row == 6 || col == 6 || row < low && (col < low || col >= high) || row >= high && col < low {
		return true
	}
	if version == 1 {
		return false
	}
	middle := modules - 7 // of the only alignment pattern of versions 2 to 6
	return row >= middle-2 && row <= middle+2 && col >= middle-2 && col <= middle+2
}

// masked reports whether a mask inverts a module.
func masked(mask, i, j int) bool {
	switch mask {
	case 0:
		return (i+j)%2 == 0
	case 1:
		return i%2 == 0
	case 2:
		return j%3 == 0
	case 3:
		return (i+j)%3 == 0
	case 4:
		return (i/2+j/3)%2 == 0
	case 5:
		return i*j%2+i*j%3 == 0
	case 6:
		return (i*j%2+i*j%3)%2 == 0
	default:
		return ((i+j)%2+i*j%3)%2 == 0
	}
}
