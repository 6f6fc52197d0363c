/*
 * Does every command do to the store what memcached's does to its items, and is it answered the same? What
 * memcached 1.6.18 knows was said to it as well, and the answers stand here as it gave them.
 */
#include "memcache/testing.h"

static void values_are_joined(void **state)
{
    static const char *const talks[][2] = {
        {"append a 0 0 1\r\nx\r\nprepend a 0 0 1\r\nx\r\nget a\r\n", "NOT_STORED\r\nNOT_STORED\r\nEND\r\n"},
        {"set a 7 100 3\r\nabc\r\nappend a 9 0 2\r\nde\r\nget a\r\nprepend a 9 0 2\r\n__\r\nget a\r\nmg a t "
         "f s\r\n",
         "STORED\r\nSTORED\r\nVALUE a 7 5\r\nabcde\r\nEND\r\nSTORED\r\nVALUE a 7 7\r\n__abcde\r\nEND\r\nHD "
         "t100 f7 s7\r\n"},
        {"set a 0 0 0\r\n\r\nappend a 0 0 0\r\n\r\nget a\r\nprepend a 0 0 1\r\nx\r\nget a\r\n",
         "STORED\r\nSTORED\r\nVALUE a 0 0\r\n\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
        {"set a 0 0 1\r\nb\r\nappend a 0 0 1 noreply\r\nc\r\nprepend a 0 0 1 noreply\r\na\r\nget a\r\nappend "
         "none 0 0 1 noreply\r\nx\r\nmn\r\n",
         "STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\nMN\r\n"},
        {"append a x 0 2\r\nzz\r\nappend a 0 0 1\r\nxy\r\nversio\r\n",
         "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad data chunk\r\n"
         "CLIENT_ERROR bad command line format\r\nERROR\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

static void numbers_are_counted(void **state)
{
    static const char *const talks[][2] = {
        {"incr a 1\r\ndecr a 1\r\nincr a 1 noreply\r\nmn\r\n", "NOT_FOUND\r\nNOT_FOUND\r\nMN\r\n"},
        {"set a 3 100 2\r\n10\r\nincr a 5\r\nget a\r\ndecr a 6\r\nget a\r\ndecr a 100\r\nget a\r\nmg a t "
         "f\r\n",
         "STORED\r\n15\r\nVALUE a 3 2\r\n15\r\nEND\r\n9\r\nVALUE a 3 2\r\n9 \r\nEND\r\n0\r\nVALUE a 3 2\r\n0 "
         "\r\nEND\r\nHD t100 f3\r\n"},
        {"set a 0 0 20\r\n18446744073709551615\r\nincr a 1\r\nget a\r\ndecr a 1\r\nget a\r\n",
         "STORED\r\n0\r\nVALUE a 0 20\r\n0                   \r\nEND\r\n0\r\nVALUE a 0 20\r\n0               "
         "    \r\nEND\r\n"},
        {"set a 0 0 20\r\n18446744073709551614\r\nincr a 1\r\nincr a 18446744073709551615\r\n",
         "STORED\r\n18446744073709551615\r\n18446744073709551614\r\n"},
        {"set a 0 0 1\r\n9\r\nincr a 1\r\nget a\r\n", "STORED\r\n10\r\nVALUE a 0 2\r\n10\r\nEND\r\n"},
        {"set a 0 0 1\r\nx\r\nincr a 1\r\ndecr a 1 noreply\r\nincr a 1 noreply\r\nma a\r\nma a "
         "q\r\nmn\r\nget a\r\n",
         "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\nCLIENT_ERROR cannot "
         "increment or decrement non-numeric value\r\nCLIENT_ERROR cannot increment or decrement non-numeric "
         "value\r\nMN\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
        {"set a 0 0 0\r\n\r\nincr a 1\r\nset a 0 0 "
         "20\r\n00000000000000000001\r\nincr a 1\r\nget a\r\n",
         "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric "
         "value\r\nSTORED\r\n2\r\nVALUE a 0 20\r\n2                   \r\nEND\r\n"},
        {"set a 0 0 1\r\n5\r\nincr a x\r\nincr a -1\r\nincr a 18446744073709551616\r\nincr a\r\nincr a 1 2 "
         "3\r\nincr a 1 noreply\r\nget a\r\n",
         "STORED\r\nCLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR invalid numeric delta "
         "argument\r\nCLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR bad command line "
         "format\r\n6\r\nVALUE a 0 "
         "1\r\n7\r\nEND\r\n"},
        {"set a 0 0 3\r\n5  \r\nincr a 1\r\nget a\r\n", "STORED\r\n6\r\nVALUE a 0 3\r\n6  \r\nEND\r\n"},
        {"set a 0 0 2\r\n 5\r\nincr a 1\r\nset a 0 0 2\r\n-5\r\nincr a 1\r\n",
         "STORED\r\n6\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

static void gets_that_touch(void **state)
{
    static const char *const talks[][2] = {
        {"gat 10 a\r\ngats 10 a b c\r\n", "END\r\nEND\r\n"},
        {"set a 5 0 1\r\nx\r\nset c 6 0 2\r\nyy\r\ngat 50 a b c a\r\nmg a t\r\nmg c t\r\ngat 0 a\r\nmg a "
         "t\r\ngat -1 a\r\nget a\r\ngat 10 a\r\n",
         "STORED\r\nSTORED\r\nVALUE a 5 1\r\nx\r\nVALUE c 6 2\r\nyy\r\nVALUE a 5 1\r\nx\r\nEND\r\nHD "
         "t50\r\nHD t50\r\nVALUE a 5 1\r\nx\r\nEND\r\nHD t-1\r\nVALUE a 5 1\r\nx\r\nEND\r\nEND\r\nEND\r\n"},
        {"gat a b\r\ngat 1\r\ngat\r\ngat x a\r\ngats\r\n",
         "CLIENT_ERROR invalid exptime argument\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad "
         "command line format\r\nCLIENT_ERROR invalid exptime "
         "argument\r\nCLIENT_ERROR bad command line format\r\n"},
        {"set a 0 0 1\r\nx\r\ngat 60 none a\r\ngat 60 a none\r\nmg a t\r\n",
         "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVALUE a 0 1\r\nx\r\nEND\r\nHD t60\r\n"},
        {"touch a 1\r\nset a 4 0 1\r\nx\r\ntouch a 77\r\nmg a t f v\r\ntouch a 0 noreply\r\nmg a t\r\ntouch "
         "a -1\r\ntouch a 1\r\nget a\r\n",
         "NOT_FOUND\r\nSTORED\r\nTOUCHED\r\nVA 1 t77 f4\r\nx\r\nHD t-1\r\nTOUCHED\r\nNOT_FOUND\r\nEND\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

static void meta_gets(void **state)
{
    static const char *const talks[][2] = {
        {"mg a\r\nmg a v\r\nmg a k O1 v\r\nmg a q\r\nmg a k q O1\r\nmn\r\n",
         "EN\r\nEN\r\nEN ka O1\r\nMN\r\n"},
        {"set a 5 100 3\r\nabc\r\nmg a\r\nmg a v\r\nmg a s t f k O12 q\r\nmg a k f t s v\r\nmg a f k O9 v "
         "q\r\nmn\r\n",
         "STORED\r\nHD\r\nVA 3\r\nabc\r\nHD s3 t100 f5 ka O12\r\nVA 3 ka f5 t100 s3\r\nabc\r\nVA 3 f5 ka "
         "O9\r\nabc\r\nMN\r\n"},
        {"mg\r\nmg a vv\r\nmg a v v\r\nmg a !\r\nmg a O1234567890123456789012345678901\r\nmg a "
         "O12345678901234567890123456789012\r\n",
         "CLIENT_ERROR bad command line format\r\nEN\r\nCLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid "
         "flag\r\nEN "
         "O1234567890123456789012345678901\r\nCLIENT_ERROR opaque token too long\r\n"},
        {"set a 5 0 1\r\nx\r\nmg a T60 t f\r\nmg a t\r\nmg a T0 t v\r\nmg a t\r\nmg a T-1\r\nmg a\r\n",
         "STORED\r\nHD t60 f5\r\nHD t60\r\nVA 1 t-1\r\nx\r\nHD t-1\r\nHD\r\nEN\r\n"},
        {"set a 5 0 1\r\nx\r\nmg a T60 q\r\nmg b T60 q k\r\nmg b T60 k\r\nmn\r\n",
         "STORED\r\nHD\r\nEN kb\r\nMN\r\n"},
        {"ms YWJj 2 b\r\nhi\r\nmg abc v\r\nmg YWJj b v k\r\nmg YWJj b k O1\r\nmg YWJj k\r\nmg !! b k\r\nmg "
         "YW b\r\nmd YWJj b q k\r\nmg abc\r\nmd YWJj b k\r\nmn\r\n",
         "HD\r\nVA 2\r\nhi\r\nVA 2 kYWJj b\r\nhi\r\nHD kYWJj b O1\r\nEN kYWJj\r\nCLIENT_ERROR error decoding "
         "key\r\nCLIENT_ERROR error decoding key\r\nEN\r\nNF kYWJj b\r\nMN\r\n"},
        {"mg a N60\r\nmg a t v\r\nmg a N60 s v\r\nms a 2\r\nhi\r\nmg a v\r\n",
         "HD W\r\nVA 0 t60 Z\r\n\r\nVA 0 s0 Z\r\n\r\nHD\r\nVA 2\r\nhi\r\n"},
        {"mg a N60 v k t O1\r\nmg a t k\r\nset a 0 0 1\r\nx\r\nmg a v t\r\n",
         "VA 0 ka t60 O1 W\r\n\r\nHD t60 ka Z\r\nSTORED\r\nVA 1 t-1\r\nx\r\n"},
        {"mg a N60 q\r\nmn\r\nmg a N0 t k v\r\n", "HD W\r\nMN\r\nVA 0 t60 ka Z\r\n\r\n"},
        {"set a 0 30 1\r\nx\r\nmg a R20 t\r\nmg a R40 t v\r\nmg a R40 t v\r\nmg a t\r\nset a 0 100 "
         "1\r\ny\r\nmg a R40 v t\r\n",
         "STORED\r\nHD t30\r\nVA 1 t30 W\r\nx\r\nVA 1 t30 Z\r\nx\r\nHD t30 Z\r\nSTORED\r\nVA 1 "
         "t100\r\ny\r\n"},
        {"set a 0 0 1\r\nx\r\nmg a R40 v\r\nmg a R40 T30 t\r\nmg a R40 t\r\n",
         "STORED\r\nVA 1\r\nx\r\nHD t30\r\nHD t30 W\r\n"},
        {"me a\r\nme\r\nme YQ== b\r\nme !! b\r\n",
         "EN\r\nCLIENT_ERROR bad command line format\r\nEN\r\nCLIENT_ERROR bad command line format\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

static void meta_sets(void **state)
{
    static const char *const talks[][2] = {
        {"ms a 2\r\nhi\r\nms a 2 q\r\nho\r\nmn\r\nms a 2 k O5 s b\r\nx\r\nms a 2 k O5\r\nhe\r\nget a\r\n",
         "HD\r\nMN\r\nCLIENT_ERROR error decoding key\r\nERROR\r\nERROR\r\nVALUE a 0 2\r\nho\r\nEND\r\n"},
        {"ms a 2 T100 F7\r\nhi\r\nmg a t f v\r\nms a 2\r\nho\r\nmg a t f v\r\n",
         "HD\r\nVA 2 t100 f7\r\nhi\r\nHD\r\nVA 2 t-1 f0\r\nho\r\n"},
        {"ms a 1 ME\r\nx\r\nms a 1 ME k\r\ny\r\nms a 1 Me\r\ny\r\nms a 1 ME q\r\nz\r\nget a\r\nms b 1 ME "
         "q\r\nx\r\nmn\r\nget b\r\n",
         "HD\r\nNS ka\r\nCLIENT_ERROR invalid mode for ms M token\r\nNS\r\nVALUE a 0 "
         "1\r\nx\r\nEND\r\nMN\r\nVALUE b 0 1\r\nx\r\nEND\r\n"},
        {"ms a 1 MR\r\nx\r\nms a 1 MR k q\r\nx\r\nset a 3 50 1\r\nx\r\nms a 1 MR\r\ny\r\nmg a t f v\r\n",
         "NS\r\nNS ka\r\nSTORED\r\nHD\r\nVA 1 t-1 f0\r\ny\r\n"},
        {"ms a 1 MA\r\nx\r\nms a 1 MP O1 k\r\nx\r\nms a 2 F5 T60\r\nbc\r\nmg a t f v\r\nms a 1 MA\r\nd\r\nms "
         "a 1 MP F9 T10\r\na\r\nmg a t f v\r\n",
         "NS\r\nNS O1 ka\r\nHD\r\nVA 2 t60 f5\r\nbc\r\nHD\r\nHD\r\nVA 4 t60 f5\r\nabcd\r\n"},
        {"ms a 1\r\nb\r\nms a 1 MP q\r\na\r\nms a 1 Ma\r\nc\r\nms a 1 Mp\r\nc\r\nms none 1 MA "
         "q\r\nx\r\nmn\r\nget a\r\n",
         "HD\r\nCLIENT_ERROR invalid mode for ms M token\r\nCLIENT_ERROR invalid mode for ms M "
         "token\r\nNS\r\nMN\r\nVALUE a 0 2\r\nab\r\nEND\r\n"},
        {"ms a 1 MS\r\nx\r\nms a 1 Ms\r\ny\r\nms a 1 MX\r\nz\r\nms a 1 M\r\nz\r\nms a 1 MEE\r\nz\r\nget "
         "a\r\n",
         "HD\r\nCLIENT_ERROR invalid mode for ms M token\r\nCLIENT_ERROR invalid mode for ms M "
         "token\r\nCLIENT_ERROR invalid mode for ms M token\r\nNS\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
        {"ms a 1 1\r\nx\r\nms a 1 1\r\nxy\r\nms a 1 v\r\nx\r\nms a 1 !\r\nx\r\nget a\r\n",
         "CLIENT_ERROR invalid flag\r\nCLIENT_ERROR invalid flag\r\nCLIENT_ERROR bad command line "
         "format\r\nHD\r\nCLIENT_ERROR invalid flag\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
        {"ms a 3\r\nxy\r\nms a 1\r\nxyz\r\nget a\r\n",
         "CLIENT_ERROR bad data chunk\r\nERROR\r\nERROR\r\nEND\r\n"},
        {"ms a 3 q\r\nxyz1\r\nmn\r\n",
         "CLIENT_ERROR bad data chunk\r\nCLIENT_ERROR bad command line format\r\nMN\r\n"},
        {"ms a 1 C5\r\nx\r\nms a 1 C5 I\r\nx\r\nset a 0 0 1\r\nx\r\nms a 1 C1 k\r\ny\r\nms a 1 "
         "C18446744073709551615 I\r\ny\r\nms a 1 C1 q\r\ny\r\nmn\r\n",
         "NF\r\nNF\r\nSTORED\r\nEX ka\r\nEX\r\nEX\r\nMN\r\n"},
        {"set a 0 0 1\r\nx\r\nms a 2 C1 I F3 T100\r\nyy\r\nmg a v t f\r\nmg a v\r\nms a 1 I\r\nz\r\nmg a "
         "v\r\n",
         "STORED\r\nHD\r\nVA 2 t-1 f3 X W\r\nyy\r\nVA 2 Z X\r\nyy\r\nHD\r\nVA 1\r\nz\r\n"},
        {"ms a 1 Tx\r\nx\r\nms a 1 Fx\r\nx\r\nms a 1 Cx\r\nx\r\nmn\r\n",
         "CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR bad command line "
         "format\r\nCLIENT_ERROR bad token in command line format\r\nMN\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

static void meta_deletes(void **state)
{
    static const char *const talks[][2] = {
        {"md a\r\nmd a k O1\r\nmd a q\r\nmn\r\nset a 0 0 1\r\nx\r\nmd a k O1\r\nget a\r\nset a 0 0 "
         "1\r\nx\r\nmd a q\r\nmn\r\nget a\r\n",
         "NF\r\nNF ka O1\r\nNF\r\nMN\r\nSTORED\r\nHD ka O1\r\nEND\r\nSTORED\r\nMN\r\nEND\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a I\r\nmg a v t f\r\nmg a v\r\nmg a\r\nms a 1\r\ny\r\nmg a v\r\n",
         "STORED\r\nHD\r\nVA 1 t100 f5 X W\r\nx\r\nVA 1 Z X\r\nx\r\nHD Z X\r\nHD\r\nVA 1\r\ny\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a I T30 q\r\nmn\r\nmg a t k v O1\r\nmg a t\r\nget a\r\nmd a I\r\nmg a "
         "t\r\nmg a t\r\n",
         "STORED\r\nMN\r\nVA 1 t30 ka O1 X W\r\nx\r\nHD t30 Z X\r\nVALUE a 5 1\r\nx\r\nEND\r\nHD\r\nHD t30 X "
         "W\r\nHD t30 Z X\r\n"},
        {"set a 5 0 1\r\nx\r\nmd a C1\r\nmd a C1 I q\r\nmd none C1\r\nmg a v\r\nmd\r\nmd a !\r\nmd a C\r\nmd "
         "a k k\r\n",
         "STORED\r\nEX\r\nEX\r\nNF\r\nVA 1\r\nx\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR "
         "invalid flag\r\n"
         "CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR duplicate flag\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a T30\r\nmg a\r\n", "STORED\r\nHD\r\nEN\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

static void meta_arithmetic(void **state)
{
    static const char *const talks[][2] = {
        {"ma a\r\nma a k O1\r\nma a q\r\nmn\r\n", "NF\r\nNF ka O1\r\nNF\r\nMN\r\n"},
        {"set a 3 100 2\r\n10\r\nma a\r\nma a v\r\nma a D5 v t\r\nma a MD v\r\nma a M- D100 v\r\nma a M+ D7 "
         "v\r\nma a Mi v\r\nma a MD D2 v k O3\r\nget a\r\n",
         "STORED\r\nHD\r\nVA 2\r\n12\r\nVA 2 t100\r\n17\r\nVA 2\r\n16\r\nVA 1\r\n0\r\nVA "
         "1\r\n7\r\nCLIENT_ERROR invalid mode for ma M token\r\nVA 1 ka O3\r\n5\r\nVALUE a 3 2\r\n5 "
         "\r\nEND\r\n"},
        {"ma a N60\r\nma a v t\r\nma b N60 J13 v t\r\nma b N60 J13 v t\r\nma c N0 J5 q\r\nmn\r\nget a b "
         "c\r\n",
         "HD\r\nVA 1 t60\r\n1\r\nVA 2 t60\r\n13\r\nVA 2 t60\r\n14\r\nMN\r\nVALUE a 0 1\r\n1\r\nVALUE b "
         "0 2\r\n14\r\nVALUE c 0 1\r\n5\r\nEND\r\n"},
        {"set a 0 0 1\r\n5\r\nma a T40 t v\r\nmg a t\r\nma a q\r\nma a v q\r\nmn\r\nget a\r\n",
         "STORED\r\nVA 1 t40\r\n6\r\nHD t40\r\nMN\r\nVALUE a 0 1\r\n8\r\nEND\r\n"},
        {"set a 0 0 20\r\n18446744073709551615\r\nma a v\r\nget a\r\n",
         "STORED\r\nVA 1\r\n0\r\nVALUE a 0 20\r\n0                   \r\nEND\r\n"},
        {"set a 0 0 1\r\n5\r\nma a MX\r\nma a M\r\nma a Dx\r\nma a Jx N0\r\nma a Nx\r\nma a !\r\nma\r\nma a "
         "C1\r\nma a C1 q k\r\nmn\r\nget a\r\n",
         "STORED\r\nCLIENT_ERROR invalid mode for ma M token\r\nCLIENT_ERROR invalid mode for ma M "
         "token\r\nCLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid or duplicate "
         "flag\r\nCLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid or duplicate "
         "flag\r\nCLIENT_ERROR bad command line format\r\nEX\r\nEX ka\r\nMN\r\nVALUE a 0 1\r\n5\r\nEND\r\n"},
        {"set a 0 0 3\r\n100\r\nma a MD D1 v\r\nget a\r\nma a v\r\nget a\r\n",
         "STORED\r\nVA 2\r\n99\r\nVALUE a 0 3\r\n99 \r\nEND\r\nVA 3\r\n100\r\nVALUE a 0 3\r\n100\r\nEND\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

static void what_is_stale_is_told_and_one_client_wins(void **state)
{
    static const char *const talks[][2] = {
        {"set a 5 100 1\r\nx\r\nmd a I T30\r\nmg a v\r\nmg a v\r\nms a 1\r\ny\r\nmg a v\r\n",
         "STORED\r\nHD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\nHD\r\nVA 1\r\ny\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a I\r\nmg a\r\nmd a I\r\nmg a\r\nmg a\r\n",
         "STORED\r\nHD\r\nHD X W\r\nHD\r\nHD X W\r\nHD Z X\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a I\r\ntouch a 50\r\nmg a t\r\nmg a t\r\n",
         "STORED\r\nHD\r\nTOUCHED\r\nHD t50 X W\r\nHD t50 Z X\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a I\r\nget a\r\ngat 50 a\r\nmg a\r\nmg a\r\n",
         "STORED\r\nHD\r\nVALUE a 5 1\r\nx\r\nEND\r\nVALUE a 5 1\r\nx\r\nEND\r\nHD X W\r\nHD Z X\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a I\r\nmg a q v\r\nmg a q v\r\nmn\r\n",
         "STORED\r\nHD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\nMN\r\n"},
        {"set a 5 100 1\r\nx\r\nmd a I\r\nappend a 0 0 1\r\ny\r\nmg a v\r\nmg a v\r\n",
         "STORED\r\nHD\r\nSTORED\r\nVA 2\r\nxy\r\nVA 2\r\nxy\r\n"},
        {"set a 5 100 1\r\n1\r\nmd a I\r\nincr a 1\r\nmg a v\r\nmg a v\r\n",
         "STORED\r\nHD\r\n2\r\nVA 1 X W\r\n2\r\nVA 1 Z X\r\n2\r\n"},
        {"mg a N30\r\nmd a I\r\nmg a\r\nmg a\r\nset a 0 0 1\r\nx\r\nmg a\r\n",
         "HD W\r\nHD\r\nHD X W\r\nHD Z X\r\nSTORED\r\nHD\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* Versions of the client's choice make what cas compares foreseeable. */
static void versions_are_compared(void **state)
{
    static const char *const talks[][2] = {
        {"ms a 1 E100 c\r\nx\r\ngets a\r\nmg a c\r\ncas a 7 0 1 99\r\ny\r\ncas a 7 0 1 100\r\ny\r\n"
         "cas a 0 0 1 100\r\nz\r\nget a\r\n",
         "HD c100\r\nVALUE a 0 1 100\r\nx\r\nEND\r\nHD c100\r\nEXISTS\r\nSTORED\r\nEXISTS\r\n"
         "VALUE a 7 1\r\ny\r\nEND\r\n"},
        {"ms a 1 E100\r\nx\r\nms a 1 C99 k\r\ny\r\nms a 1 C100 E101 F3 c\r\ny\r\nmg a v c f\r\n",
         "HD\r\nEX ka\r\nHD c101\r\nVA 1 c101 f3\r\ny\r\n"},
        {"ms a 1 E100\r\nx\r\ntouch a 50\r\ngat 60 a\r\nmg a T70\r\nmg a c t\r\n",
         "HD\r\nTOUCHED\r\nVALUE a 0 1\r\nx\r\nEND\r\nHD\r\nHD c100 t70\r\n"},
        {"ms a 1 E100\r\nx\r\ngats 60 a b\r\n", "HD\r\nVALUE a 0 1 100\r\nx\r\nEND\r\n"},
        {"ms a 1 E100\r\nx\r\nms a 1 MA C99\r\ny\r\nms a 1 MA C100 E101 c\r\ny\r\nms a 1 MP C101 E102 s "
         "c\r\n_\r\nmg a v c\r\n",
         "HD\r\nEX\r\nHD c101\r\nHD s3 c102\r\nVA 3 c102\r\n_xy\r\n"},
        {"ms a 1 E100\r\n5\r\nma a C99\r\nma a C100 E101 c v\r\nma a C100 q\r\nma a C101 E102 q\r\nmg a c "
         "v\r\n",
         "HD\r\nEX\r\nVA 1 c101\r\n6\r\nEX\r\nVA 1 c102\r\n7\r\n"},
        {"ms a 1 E100\r\nx\r\nmd a C99\r\nmd a C99 I\r\nmd a C100 I E200\r\nmg a c\r\nmd a C100\r\nmd a "
         "C200 q\r\nmg a\r\n",
         "HD\r\nEX\r\nEX\r\nHD\r\nHD c200 X W\r\nEX\r\nEN\r\n"},
        {"ms a 1 ME E9 c\r\nx\r\nms a 1 MR E10 c\r\ny\r\nmg a v c\r\n",
         "HD c9\r\nHD c10\r\nVA 1 c10\r\ny\r\n"},
        {"ma a N0 E5 c\r\nmg b N0 E6 c\r\nmg b c\r\n", "HD c5\r\nHD c6 W\r\nHD c6 Z\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* A client that was late may store what it has made: it is out of date at once, and the next one wins. */
static void what_comes_late_is_stale(void **state)
{
    static const char *const talks[][2] = {
        {"ms a 1 E100 T90 F3\r\nx\r\nms a 2 C99 I E200 T50 F4 s c\r\nyy\r\nmg a v c t f\r\nmg a v c\r\n",
         "HD\r\nHD s2 c200\r\nVA 2 c200 t90 f4 X W\r\nyy\r\nVA 2 c200 Z X\r\nyy\r\n"},
        {"mg a N60\r\nms a 1 C1 I\r\nx\r\nmg a v\r\nmg a v\r\n",
         "HD W\r\nHD\r\nVA 1 Z X\r\nx\r\nVA 1 Z X\r\nx\r\n"},
        {"set a 0 100 1\r\ny\r\nmg a R200\r\nms a 1 C1 I\r\nx\r\nmg a v\r\nmd a I\r\nmg a\r\n",
         "STORED\r\nHD W\r\nHD\r\nVA 1 Z X\r\nx\r\nHD\r\nHD X W\r\n"},
        {"ms a 1 E100\r\nx\r\nms a 1 C100 I E200\r\ny\r\nmg a v c\r\n", "HD\r\nHD\r\nVA 1 c200\r\ny\r\n"},
        {"ms a 1 E100\r\nx\r\nms a 1 C101 I k\r\ny\r\nmg a v c\r\n", "HD\r\nEX ka\r\nVA 1 c100\r\nx\r\n"},
        {"ms a 1 E100\r\nx\r\nmd a I E200\r\nms a 1 C100 I E300\r\ny\r\nmg a c\r\nms a 1 C300 E400\r\nz\r\n"
         "mg a v c\r\n",
         "HD\r\nHD\r\nHD\r\nHD c300 X W\r\nHD\r\nVA 1 c400\r\nz\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* What stands behind a number stays out of it; one that grows is a new item; C0 compares nothing where it may
 * make one. */
static void more_about_changes(void **state)
{
    static const char *const talks[][2] = {
        {"set a 0 0 21\r\n000000000000000000001\r\nincr a 1\r\nget a\r\nset a 0 0 24\r\n  7 and more behind "
         "it  \r\nincr a 1\r\nget a\r\nset a 0 0 21\r\n184467440737095516150\r\nincr a 1\r\n",
         "STORED\r\n2\r\nVALUE a 0 21\r\n2                    \r\nEND\r\nSTORED\r\n8\r\nVALUE a 0 24\r\n8    "
         "                   \r\nEND\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric "
         "value\r\n"},
        {"set a 0 0 4\r\n5\t x\r\nincr a 5\r\nget a\r\n", "STORED\r\n10\r\nVALUE a 0 4\r\n10  \r\nEND\r\n"},
        {"set a 0 0 1\r\n5\r\nma a C0\r\nms a 1 MA C0\r\n7\r\nms a 1 MP C0\r\n1\r\nms a 1 C0\r\nx\r\nmd a "
         "C0\r\nget a\r\n",
         "STORED\r\nHD\r\nHD\r\nHD\r\nEX\r\nEX\r\nVALUE a 0 3\r\n167\r\nEND\r\n"},
        {"set a 5 100 2\r\n99\r\nmd a I\r\nincr a 1\r\nmg a v\r\nset a 5 100 2\r\n99\r\nmd a I\r\nma a "
         "v\r\nmg a v\r\n",
         "STORED\r\nHD\r\n100\r\nVA 3\r\n100\r\nSTORED\r\nHD\r\nVA 3\r\n100\r\nVA 3\r\n100\r\n"},
        {"set a 5 100 2\r\n98\r\nmd a I\r\nincr a 1\r\nmg a v\r\n",
         "STORED\r\nHD\r\n99\r\nVA 2 X W\r\n99\r\n"},
        {"set a 0 0 1\r\nx\r\nmd a I\r\nmg a\r\nprepend a 0 0 1\r\ny\r\nmg a\r\nmd a I\r\nmg a\r\nms a 1 "
         "MA\r\nz\r\nmg a v\r\n",
         "STORED\r\nHD\r\nHD X W\r\nSTORED\r\nHD\r\nHD\r\nHD X W\r\nHD\r\nVA 3\r\nyxz\r\n"},
        {"touch\r\ntouch a\r\nverbosity\r\nget\r\nincr a noreply x\r\n",
         "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad "
         "command line format\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR invalid numeric delta "
         "argument\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* Each flag finds what those before it have done. */
static void flags_have_an_order(void **state)
{
    static const char *const talks[][2] = {
        {"set a 5 0 1\r\nx\r\nmg a t T60 f\r\nmg a t T0 v\r\nmg a t\r\n",
         "STORED\r\nHD t-1 f5\r\nVA 1 t60\r\nx\r\nHD t-1\r\n"},
        {"set n 0 100 1\r\n5\r\nma n t T200 v\r\nma n T300 t v\r\nma n t\r\nma n N5 T400 t\r\n",
         "STORED\r\nVA 1 t100\r\n6\r\nVA 1 t300\r\n7\r\nHD t300\r\nHD t400\r\n"},
        {"set w 0 100 1\r\nx\r\nmg w R10 T5 t\r\nset w 0 100 1\r\nx\r\nmg w T5 R10 t\r\nset w 0 5 "
         "1\r\nx\r\nmg w "
         "T500 R10 t\r\nset w 0 5 1\r\nx\r\nmg w R10 T500 t\r\nmg w t\r\n",
         "STORED\r\nHD t5\r\nSTORED\r\nHD t5 W\r\nSTORED\r\nHD t500\r\nSTORED\r\nHD t500 W\r\nHD t500 Z\r\n"},
        {"mg x N60 T30 t\r\nmg x t\r\nmg y t T30 N60\r\nmg y t\r\nma z N60 T30 t\r\nmg z t\r\nma w t T30 "
         "N60\r\nmg w "
         "t\r\n",
         "HD t30 W\r\nHD t30 Z\r\nHD t-1 W\r\nHD t60 Z\r\nHD t30\r\nHD t30\r\nHD t-1\r\nHD t60\r\n"},
        {"set n 0 100 1\r\n5\r\nmd n I T20\r\nmg n t R50 T200 v\r\nmg n t\r\n",
         "STORED\r\nHD\r\nVA 1 t20 X W\r\n5\r\nHD t200 Z X\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* What memcached learned after 1.6.18. */
static void newer_flags(void **state)
{
    static const char *const talks[][2] = {
        {"ms a 2 MA N60 F5\r\nbc\r\nmg a t f v\r\nms a 1 MA N70 F6\r\nd\r\nms a 1 MP F9 T10\r\na\r\nmg a t f "
         "v\r\nms b 1 MP N0 q\r\nx\r\nmg b t v\r\n",
         "HD\r\nVA 2 t60 f5\r\nbc\r\nHD\r\nHD\r\nVA 4 t60 f5\r\nabcd\r\nVA 1 t-1\r\nx\r\n"},
        {"md a x\r\nset a 5 100 2\r\nhi\r\nmd a x\r\nmg a t f v\r\n",
         "NF\r\nSTORED\r\nHD\r\nVA 0 t-1 f0\r\n\r\n"},
        {"set a 5 100 2\r\nhi\r\nmd a x I T30 F8 q\r\nmg a t f v\r\nmg a\r\n",
         "STORED\r\nVA 0 t30 f8 X W\r\n\r\nHD Z X\r\n"},
        {"ms a 1 T50\r\nx\r\nmg a h l u t\r\n", "HD\r\nHD h0 l0 t50\r\n"},
        {"ms a 3 E7 T50\r\nabc\r\nme a\r\nme YQ== b\r\nms b 0 E8\r\n\r\nme b q\r\n",
         "HD\r\nME a exp=50 la=0 cas=7 fetch=no cls=1 size=63\r\nME YQ== exp=50 la=0 cas=7 fetch=no cls=1 "
         "size=63\r\nHD\r\n"
         "ME b exp=-1 la=0 cas=8 fetch=no cls=1 size=60\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* memcached's limit of an item counts what it has of its own: 59 bytes, and 4 for flags. */
static void items_have_a_limit(void **state)
{
    struct talk *talk = *state;
    talk->server.item_bytes_max = 59 + 1 + 10;
    static const char *const talks[][2] = {
        {"set a 0 0 10\r\n0123456789\r\nset a 0 0 11\r\n0123456789_\r\nget a\r\n",
         "STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 10\r\n0123456789\r\nEND\r\n"},
        {"set a 1 0 6\r\n012345\r\nset a 1 0 7\r\n0123456\r\nset ab 0 0 10\r\n0123456789\r\n",
         "STORED\r\nSERVER_ERROR object too large for cache\r\nSERVER_ERROR object too large for cache\r\n"},
        {"set a 0 0 5\r\n01234\r\nappend a 0 0 6\r\n012345\r\nappend a 0 0 5\r\n56789\r\nprepend a 0 0 1 "
         "noreply\r\n_\r\nget a\r\n",
         "STORED\r\nNOT_STORED\r\nSTORED\r\nVALUE a 0 10\r\n0123456789\r\nEND\r\n"},
        {"ms a 5\r\n01234\r\nms a 6 MA k\r\n012345\r\nms a 6 MP q\r\n012345\r\nmg a s\r\n",
         "HD\r\nNS ka\r\nNS\r\nHD s5\r\n"},
    };
    TALK_EXPECT_ALL(talk, talks);
}

/* Time goes on, and what has expired is not there for anyone. */
static void what_has_expired_is_not_there(void **state)
{
    struct talk *talk = *state;
    talk_expect_once(talk, "set a 0 10 1\r\nx\r\nset b 0 10 1\r\n5\r\nmg a t\r\n",
                     "STORED\r\nSTORED\r\nHD t10\r\n");
    talk->clock.wall_ns += 8 * BASE_NS_PER_SECOND + BASE_NS_PER_SECOND / 2;
    talk_expect_once(talk, "mg a t\r\nincr b 1\r\nappend a 0 0 1\r\ny\r\nmg b t\r\nmg a t v\r\n",
                     "HD t2\r\n6\r\nSTORED\r\nHD t2\r\nVA 2 t2\r\nxy\r\n");
    talk->clock.wall_ns += 2 * BASE_NS_PER_SECOND;
    talk_expect_once(
        talk,
        "get a b\r\nmg a\r\nappend a 0 0 1\r\ny\r\nincr b 1\r\nreplace a 0 0 1\r\nx\r\ncas a 0 0 1 "
        "5\r\nx\r\ndelete a\r\nmd a I\r\ntouch a 0\r\ngat 0 a b\r\nma b\r\nme a\r\nadd a 0 0 "
        "1\r\nz\r\nget a b\r\n",
        "END\r\nEN\r\nNOT_STORED\r\nNOT_FOUND\r\nNOT_STORED\r\nNOT_FOUND\r\nNOT_FOUND\r\nNF\r\nNOT_"
        "FOUND\r\nEND\r\nNF\r\nEN\r\nSTORED\r\nVALUE a 0 1\r\nz\r\nEND\r\n");
}

/* What is stored until then, too, and nothing that is stored later. */
static void what_is_flushed_later_is_there_until_then(void **state)
{
    struct talk *talk = *state;
    talk_expect_once(talk, "set a 0 0 1\r\nx\r\nflush_all 10\r\nset b 0 0 1\r\ny\r\nget a b\r\n",
                     "STORED\r\nOK\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\n");
    talk->clock.wall_ns += 9 * BASE_NS_PER_SECOND;
    talk_expect_once(talk, "get a\r\nmg b\r\n", "VALUE a 0 1\r\nx\r\nEND\r\nHD\r\n");
    talk->clock.wall_ns += BASE_NS_PER_SECOND;
    talk_expect_once(talk, "get a b\r\nadd b 0 0 1\r\nz\r\ntouch a 0\r\nget b\r\n",
                     "END\r\nSTORED\r\nNOT_FOUND\r\nVALUE b 0 1\r\nz\r\nEND\r\n");
    talk->clock.wall_ns += 100 * BASE_NS_PER_SECOND;
    talk_expect_once(talk, "get b\r\nflush_all 10\r\nflush_all 0\r\nget b\r\nset b 0 0 1\r\nx\r\n",
                     "VALUE b 0 1\r\nz\r\nEND\r\nOK\r\nOK\r\nEND\r\nSTORED\r\n");
    talk->clock.wall_ns += 100 * BASE_NS_PER_SECOND; /* the later order was replaced */
    talk_expect_once(talk, "flush_all 1600000000\r\nget b\r\nflush_all -1\r\nget b\r\n",
                     "OK\r\nVALUE b 0 1\r\nx\r\nEND\r\nOK\r\nEND\r\n");
}

static void put_in_pieces(void *arg)
{
    struct talk *talk = arg;
    const size_t bytes = kv_whole_bytes_max(talk->kv, 1) + 1;
    char *value = calloc(1, bytes);
    base_assert(value != NULL);
    int error = tarn_kv_put(talk->kv, "a", 1, value, bytes, NULL, NULL);
    base_assert(error == 0);
    free(value);
}

/* Such values come through other front ends. */
static void what_is_longer_than_can_be_sent_is_told(void **state)
{
    struct talk *talk = *state;
    talk_run(talk, put_in_pieces, talk);
    talk_expect_once(
        talk, "get a\r\nmg a v\r\ngat 0 a\r\nappend a 0 0 1\r\nx\r\nincr a 1\r\ntouch a 0\r\ndelete a\r\n",
        "SERVER_ERROR the value is longer than this server sends\r\nSERVER_ERROR the value is longer than "
        "this "
        "server sends\r\nSERVER_ERROR the value is longer than this server sends\r\nNOT_STORED\r\n"
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\nTOUCHED\r\nDELETED\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TALK_TESTS(values_are_joined),
        TALK_TESTS(numbers_are_counted),
        TALK_TESTS(gets_that_touch),
        TALK_TESTS(meta_gets),
        TALK_TESTS(meta_sets),
        TALK_TESTS(meta_deletes),
        TALK_TESTS(meta_arithmetic),
        TALK_TESTS(what_is_stale_is_told_and_one_client_wins),
        TALK_TESTS(versions_are_compared),
        TALK_TESTS(what_comes_late_is_stale),
        TALK_TESTS(more_about_changes),
        TALK_TESTS(flags_have_an_order),
        TALK_TESTS(newer_flags),
        TALK_TESTS(items_have_a_limit),
        TALK_TESTS(what_has_expired_is_not_there),
        TALK_TESTS(what_is_flushed_later_is_there_until_then),
        TALK_TEST(what_is_longer_than_can_be_sent_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
