// The one translation unit that holds Asio's separately compiled parts and Boost.URL.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/url/src.hpp>
