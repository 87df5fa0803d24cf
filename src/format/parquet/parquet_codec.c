/* How pages are compressed. */
#include <zlib.h>
#include <zstd.h>

#ifdef RK_BROTLI
#include <brotli/decode.h>
#endif
#ifdef RK_LZ4
#include <lz4.h>
#endif
#ifdef RK_SNAPPY
#include <snappy-c.h>
#endif

#include "format/parquet/parquet_internal.h"

enum { PLAIN, SNAPPY, GZIP, LZO, BROTLI, LZ4_FRAMED, ZSTD, LZ4 };

const char *rk_parquet_codec_unsupported_reason(int32_t codec) {
    switch (codec) {
        case PLAIN:
        case GZIP:
        case ZSTD:
            return NULL;
        case SNAPPY:
#ifdef RK_SNAPPY
            return NULL;
#else
            return "this build does not know snappy\nhint: install libsnappy-dev and build Reckon again";
#endif
        case BROTLI:
#ifdef RK_BROTLI
            return NULL;
#else
            return "this build does not know brotli\nhint: install libbrotli-dev and build Reckon again";
#endif
        case LZ4_FRAMED:
        case LZ4:
#ifdef RK_LZ4
            return NULL;
#else
            return "this build does not know LZ4\nhint: install liblz4-dev and build Reckon again";
#endif
        case LZO:
            return "pages compressed by LZO are not supported\nhint: write the file with zstd or snappy";
        default:
            return "pages are compressed in a way that this program does not know";
    }
}

/* Each of them gives whether exactly raw_bytes came out. */
static bool decompress_gzip(const uint8_t *stored, size_t stored_bytes, uint8_t *out, size_t raw_bytes) {
    enum { ZLIB_OR_GZIP = 15 + 32 };
    z_stream z = {.next_in = (Bytef *)(size_t)stored,
                  .avail_in = (uInt)stored_bytes,
                  .next_out = out,
                  .avail_out = (uInt)raw_bytes};
    if (inflateInit2(&z, ZLIB_OR_GZIP) != Z_OK) return false;
    int code = Z_OK;
    while (code == Z_OK) {
        code = inflate(&z, Z_FINISH);
        if (code == Z_STREAM_END && z.avail_out && z.avail_in) code = inflateReset(&z); /* one more member */
    }
    inflateEnd(&z);
    return code == Z_STREAM_END && z.avail_out == 0;
}

static bool decompress_zstd(void **zstd, const uint8_t *stored, size_t stored_bytes, uint8_t *out,
                            size_t raw_bytes) {
    if (!*zstd) *zstd = ZSTD_createDCtx();
    return *zstd && ZSTD_decompressDCtx(*zstd, out, raw_bytes, stored, stored_bytes) == raw_bytes;
}

#ifdef RK_SNAPPY
static bool decompress_snappy(const uint8_t *stored, size_t stored_bytes, uint8_t *out, size_t raw_bytes) {
    size_t n = 0;
    return snappy_uncompressed_length((const char *)stored, stored_bytes, &n) == SNAPPY_OK &&
           n == raw_bytes &&
           snappy_uncompress((const char *)stored, stored_bytes, (char *)out, &n) == SNAPPY_OK &&
           n == raw_bytes;
}
#endif

#ifdef RK_LZ4
static bool decompress_lz4(const uint8_t *stored, size_t stored_bytes, uint8_t *out, size_t raw_bytes) {
    return LZ4_decompress_safe((const char *)stored, (char *)out, (int)stored_bytes, (int)raw_bytes) ==
           (int)raw_bytes;
}

static size_t read_u32_big_endian(const uint8_t *at) {
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

/* Hadoop's blocks: the bytes of several, unpacked and packed, before each. */
static bool decompress_lz4_hadoop(const uint8_t *stored, size_t stored_bytes, uint8_t *out,
                                  size_t raw_bytes) {
    size_t n_out = 0, at = 0;
    while (stored_bytes - at >= 8) {
        size_t n_raw = read_u32_big_endian(stored + at), n_stored = read_u32_big_endian(stored + at + 4);
        at += 8;
        if (n_raw > raw_bytes - n_out || n_stored > stored_bytes - at ||
            !decompress_lz4(stored + at, n_stored, out + n_out, n_raw))
            return false;
        n_out += n_raw;
        at += n_stored;
    }
    return n_out == raw_bytes && at == stored_bytes;
}
#endif

#ifdef RK_BROTLI
static bool decompress_brotli(const uint8_t *stored, size_t stored_bytes, uint8_t *out, size_t raw_bytes) {
    size_t n = raw_bytes;
    return BrotliDecoderDecompress(stored_bytes, stored, &n, out) == BROTLI_DECODER_RESULT_SUCCESS &&
           n == raw_bytes;
}
#endif

static bool decompress_by_codec(int32_t codec, void **zstd, const uint8_t *stored, size_t stored_bytes,
                                uint8_t *out, size_t raw_bytes) {
    switch (codec) {
        case GZIP:
            return decompress_gzip(stored, stored_bytes, out, raw_bytes);
        case ZSTD:
            return decompress_zstd(zstd, stored, stored_bytes, out, raw_bytes);
#ifdef RK_SNAPPY
        case SNAPPY:
            return decompress_snappy(stored, stored_bytes, out, raw_bytes);
#endif
#ifdef RK_LZ4
        case LZ4:
            return decompress_lz4(stored, stored_bytes, out, raw_bytes);
        case LZ4_FRAMED: /* some writers left the frame out */
            return decompress_lz4_hadoop(stored, stored_bytes, out, raw_bytes) ||
                   decompress_lz4(stored, stored_bytes, out, raw_bytes);
#endif
#ifdef RK_BROTLI
        case BROTLI:
            return decompress_brotli(stored, stored_bytes, out, raw_bytes);
#endif
        default:
            return false;
    }
}

rk_status rk_parquet_decompress(int32_t codec, void **zstd, const uint8_t *stored, size_t stored_bytes,
                                uint8_t *out, size_t raw_bytes) {
    RK_FAIL_IF(!decompress_by_codec(codec, zstd, stored, stored_bytes, out, raw_bytes), RK_BAD_DATA,
               "the compressed data is corrupt");
    return RK_OK;
}
